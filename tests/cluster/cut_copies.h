// A copy between a file of node east and a buffer of node west, cut off by the client's end.
#pragma once

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace onecopy::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

// Buffer "b" of west, and the file that it is copied to, with the file's partial one.
struct CutCopies {
  static constexpr uint64_t kBytes = 16 * kMiB + 123;  // the last block is a short one

  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  const std::string payload = Payload(kBytes);
  TempFolder folder;
  const std::string out = folder / "out";
  const std::string partial = folder / ".out.onecopy-part";

  CutCopies() { west.Do({"buffer", "create", "b", "--size", std::to_string(kBytes)}); }

  void Fill() { west.Do({"cp", "-", "b"}, payload); }
  Json Resume() const { return east.Do({"cp", "west:b", out, "--resume"}); }

  // A client that copies, and stops as soon as so much is done.
  std::unique_ptr<Process> Copying(const std::string& source, const std::string& destination,
                                   uint64_t until, std::vector<std::string> how) const {
    std::vector<std::string> arguments = {east.run_dir(), source, destination,
                                          std::to_string(until)};
    arguments.insert(arguments.end(), how.begin(), how.end());
    auto process = std::make_unique<Process>(
        ProcessOptions{.program = (ProgramFolder() / "support" / "cut_copy").string(),
                       .arguments = std::move(arguments),
                       .input_file = ""});
    const std::string line = process->ReadLine();
    if (!line.starts_with("at ")) throw std::runtime_error("cut_copy ended before it stopped");
    return process;
  }
  static void Kill(Process& process) {
    process.Signal(SIGKILL);
    CHECK(process.Wait() == 1000 + SIGKILL);
  }
  // What the partial file has of the payload: some whole blocks from its beginning on.
  uint64_t WrittenBytes() const {
    const std::string there = ReadFile(partial);
    uint64_t blocks = 0;
    while (there.compare(blocks * kMiB, kMiB, payload, blocks * kMiB, kMiB) == 0) ++blocks;
    CHECK(blocks >= 4);
    CHECK(blocks <= 7);
    return blocks * kMiB;
  }
  void CheckDone(const Json& copy, uint64_t proven) const {
    CHECK(copy.at("proven_bytes") == proven);
    CHECK(copy.at("bytes") == kBytes - proven);
    CHECK(ReadFile(out) == payload);
    CHECK_FALSE(std::filesystem::exists(partial));
  }
};

}  // namespace onecopy::testing
