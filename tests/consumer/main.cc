// Uses the installed library as another project would: consumer RUN_DIR prints why no client can be
// had there; with one more argument it then uses the client that there is not.
#include <onecopy/client.h>
#include <onecopy/file_copy.h>
#include <onecopy/reasons.h>

#include <iostream>

#include "every_header.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool ask_all_the_same = argc > 2;
  onecopy::ConnectOptions options;
  options.run_dir = argv[1];
  const onecopy::Result<onecopy::Client> client = onecopy::Client::Connect(options);
  if (client) return 1;
  // Not called by the client library itself.
  if (onecopy::CodeName(client.status().code()) != "UNAVAILABLE") return 1;
  if (client.status().reason() != onecopy::reasons::kDaemonUnreachable) return 1;
  std::cerr << client.status() << "\n" << onecopy::Receipt() << "\n";
  std::cout << client.status().reason() << "\n";
  return ask_all_the_same ? static_cast<int>(client->node().size()) : 0;
}
