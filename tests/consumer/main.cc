// Uses the installed library as another project would: consumer RUN_DIR prints why no client can be
// had there.
#include <onecopy/client.h>
#include <onecopy/file_copy.h>

#include <iostream>

#include "every_header.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  onecopy::ConnectOptions options;
  options.run_dir = argv[1];
  const onecopy::Result<onecopy::Client> client = onecopy::Client::Connect(options);
  if (client.ok()) return 1;
  // Not called by the client library itself.
  if (onecopy::CodeName(client.status().code()) != "UNAVAILABLE") return 1;
  std::cout << client.status().reason() << "\n";
  return 0;
}
