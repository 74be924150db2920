// A user's program that copies between a file and a buffer, and says how far it is at some point; a
// test ends it there. `cut_copy RUN_DIR SOURCE DESTINATION BYTES HOW…`: the ends as a file's path
// or NODE:NAME, and of `resume`, `windows` (this process reads or writes the file) and `slow` (4
// MiB/s) what should be.
#include <iostream>
#include <string>

#include "onecopy/file_copy.h"

namespace {

onecopy::Endpoint BufferOf(const std::string& end) {
  const size_t colon = end.find(':');
  return {end.substr(0, colon), end.substr(colon + 1)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  auto client = onecopy::Client::Connect({.run_dir = argv[1]});
  if (!client.ok()) {
    std::cerr << client.status().ToString() << '\n';
    return 1;
  }
  const std::string source = argv[2];
  const std::string destination = argv[3];
  const uint64_t until = std::stoull(argv[4]);
  onecopy::FileCopyOptions options;
  options.window_bytes = uint64_t{1} << 20;
  for (int i = 5; i < argc; ++i) {
    if (argv[i] == std::string("resume")) options.resume = true;
    if (argv[i] == std::string("windows")) options.policy.path_glob = "tcp-*";
    if (argv[i] == std::string("slow")) {
      options.pacing.rate_limit_bytes_per_second = uint64_t{4} << 20;
    }
  }
  options.on_progress = [&](uint64_t done, std::optional<uint64_t>) {
    if (done < until) return;
    std::cout << "at " << done << std::endl;
    std::string line;
    std::getline(std::cin, line);
  };
  const auto copy =
      source.starts_with('/')
          ? onecopy::CopyFileToBuffer(*client, {source}, BufferOf(destination), options)
          : onecopy::CopyBufferToFile(*client, BufferOf(source), {destination}, options);
  std::cerr << copy.status().ToString() << '\n';
  return copy.ok() ? 0 : 1;
}
