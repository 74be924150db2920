// Moves memory of this process into a buffer of another node, and prints which way it went:
//   onecopy --run-dir … buffer create there --size 1MiB --memory host        on node west
//   send west there 1048576                                                   here
#include <onecopy/client.h>

#include <cstdlib>
#include <iostream>

namespace {

int Fail(const onecopy::Status& status) {
  std::cerr << status << "\n";  // what failed, on what, why, and what to do
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: send NODE BUFFER BYTES\n";
    return 2;
  }
  const uint64_t bytes = std::strtoull(argv[3], nullptr, 10);

  // The daemon of this machine, or that of $ONECOPY_RUN_DIR.
  auto client = onecopy::Client::Connect();
  if (!client) return Fail(client.status());

  // Memory that the daemon can read in place. Memory of a GPU: Client::RegisterCuda.
  auto memory = client->CreateHostBuffer("", bytes);
  if (!memory) return Fail(memory.status());
  for (uint64_t i = 0; i < bytes; ++i) memory->data()[i] = static_cast<std::byte>(i % 251);

  const auto done = client->RunTransfer(
      {.source = memory->endpoint(0, bytes), .destination = {argv[1], argv[2]}, .checksum = true});
  const onecopy::Status outcome = done ? OutcomeOf(*done) : done.status();
  if (!outcome.ok()) return Fail(outcome);
  std::cout << done->receipt << "\n";
  return 0;
}
