// Files and memory that only something else reaches: through slots, with a driver that has no GPU,
// and through the slab of a process.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <vector>

#include "onecopy/file_copy.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace storage_slots_test {
namespace {

using namespace onecopy::testing;

// Far more than the slots hold, and no whole number of anything.
constexpr uint64_t kBytes = (uint64_t{150} << 20) + 4097;

struct WithGpu {
  Node node{"east", {.config = "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n"}};
  TempFolder folder;
};

// A file that is on its disk, and out of the page cache where the file system lets it.
void WriteCold(const std::string& path, const std::string& content) {
  WriteFile(path, content);
  const onecopy::os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::fsync(fd.get()) == 0);
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

// The copies of a pass by way of a slot: the page cache's, where a byte went there, is one more.
void CheckSlots(const Json& receipt, const std::string& file_end, const std::string& slots) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("path") == "storage-bounce");
  const Json& steps = receipt.at("steps");
  CHECK(receipt.at("copies") == steps.size());
  REQUIRE(steps.size() >= 2);
  REQUIRE(steps.size() <= 3);
  const bool reads = file_end == "from";
  const Json& beside = reads ? steps.back() : steps.front();
  CHECK(beside.at(reads ? "from" : "to").get<std::string>() == slots);
  CHECK(beside.at("bytes") == kBytes);
  CHECK((reads ? steps.front() : steps.back()).at(file_end) == "file");
}

// Slots are registered with the kernel, where no limit on locked memory counts, for what goes past
// the page cache; a client's slab never is.
void CheckRegistered(const Json& receipt, bool slots) {
  const std::string how = receipt.at("evidence").at("storage");
  INFO(how);
  const bool direct = how.find("O_DIRECT") != std::string::npos;
  const bool ring = how.find("io_uring") != std::string::npos;
  CHECK((how.find("registered memory") != std::string::npos) ==
        (slots && direct && ring && !onecopy::os::LockedMemoryLimit()));
}

// How often a process has asked for bytes of anything.
uint64_t CallsToRead(pid_t pid) {
  std::ifstream io("/proc/" + std::to_string(pid) + "/io");
  std::string word;
  uint64_t count = 0;
  while (io >> word >> count) {
    if (word == "syscr:") return count;
  }
  throw std::runtime_error("the kernel does not count what process reads");
}

}  // namespace

TEST_CASE("a file and a GPU's memory meet in pinned slots, both ways, byte for byte") {
  WithGpu with;
  const std::string payload = Payload(kBytes, 5);
  WriteCold(with.folder / "in", payload);
  with.node.Do({"buffer", "create", "g", "--size", std::to_string(kBytes), "--memory", "cuda:0"});
  const Json plan = with.node.Do({"cp", with.folder / "in", "g", "--dry-run"});
  const Json in = with.node.Do({"cp", with.folder / "in", "g", "--checksum"});
  // Whether the step into a slot says so depends on whether slots could be locked.
  CheckSlots(in, "from", in.at("steps").back().at("from"));
  CHECK(in.at("steps").back().at("to").get<std::string>().starts_with("GPU-"));
  CHECK(in.at("copies") == plan.at("copies"));
  CHECK(in.at("checksum").at("verified") == true);
  // With libcufile beside a driver, it is tried, which takes a while; without, it is not looked
  // for.
  std::string reason;
  WaitUntil("the daemon knows whether there is GPUDirect Storage", [&] {
    const Json asked = with.node.Do({"explain", with.folder / "in", "g"});
    for (const Json& refusal : asked.at("refused")) {
      if (refusal.at("path") == "storage-direct") reason = refusal.at("reason");
    }
    return reason != "NOT_YET_KNOWN";
  });
  CHECK((reason == "NO_DRIVER" || reason == "NO_CUFILE" || reason == "COMPATIBILITY_MODE"));
  CHECK(Contents(with.node, "g") == payload);
  const Json out = with.node.Do({"cp", "g", with.folder / "out", "--checksum"});
  CheckSlots(out, "to", out.at("steps").front().at("to"));
  CheckRegistered(in, true);
  CheckRegistered(out, true);
  CHECK(ReadFile(with.folder / "out") == payload);
  const CommandResult one = with.node.Run({"cp", with.folder / "in", "g", "--at-most", "1"});
  CheckRefused(one, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
}

TEST_CASE("a disk is asked for pieces as the configuration says, through slots too") {
  constexpr uint64_t kWhole = uint64_t{64} << 20;  // all of it may go past the page cache
  struct Asked {
    std::string setting;
    uint64_t piece_bytes;
  };
  const auto asked = GENERATE(Asked{"", uint64_t{512} << 10},
                              Asked{"direct_read_piece_bytes = \"64KiB\"\n", uint64_t{64} << 10});
  Node node("east", {.config = "[libraries]\ncuda = \"" + FakeCudaPath() +
                               "\"\n[posix]\nio = \"threads\"\n" + asked.setting});
  const TempFolder folder;
  const std::string payload = Payload(kWhole, 8);
  WriteCold(folder / "in", payload);
  node.Do({"buffer", "create", "g", "--size", std::to_string(kWhole), "--memory", "cuda:0"});
  node.Do({"cp", folder / "in", "g"});  // slots are there now
  WriteCold(folder / "in", payload);
  const uint64_t before = CallsToRead(node.process().pid());
  const Json receipt = node.Do({"cp", folder / "in", "g"});
  const uint64_t calls = CallsToRead(node.process().pid()) - before;
  INFO(asked.setting << receipt.at("evidence").dump());
  CHECK(Contents(node, "g") == payload);
  if (receipt.at("steps").size() > 2) ONECOPY_SKIP("the file did not go past the page cache");
  CHECK(calls >= kWhole / asked.piece_bytes);
}

TEST_CASE("a range of a file that begins and ends anywhere goes through slots") {
  WithGpu with;
  const std::string payload = Payload(kBytes, 6);
  WriteFile(with.folder / "f", payload);
  with.node.Do({"buffer", "create", "g", "--size", std::to_string(kBytes), "--memory", "cuda:0"});
  constexpr uint64_t kPart = (uint64_t{40} << 20) + 3;
  const std::string part = "+" + std::to_string(kPart);
  with.node.Do({"cp", with.folder / "f@1001" + part, "g@77" + part, "--checksum"});
  CHECK(Contents(with.node, "g@77" + part) == payload.substr(1001, kPart));
  with.node.Do({"cp", "g@77" + part, with.folder / "f@5" + part});
  std::string expected = payload;
  expected.replace(5, kPart, payload.substr(1001, kPart));
  CHECK(ReadFile(with.folder / "f") == expected);
}

TEST_CASE("a file and ordinary memory of a process meet in its slab") {
  WithGpu with;
  const std::string payload = Payload(kBytes, 7);
  WriteFile(with.folder / "in", payload);
  onecopy::Client client = with.node.Connect();
  std::vector<char> memory(kBytes);
  Must(client.RegisterMemory("array", memory.data(), kBytes));
  const Json in = with.node.Do({"cp", with.folder / "in", "array"});
  CheckSlots(in, "from", "slab");
  CHECK(in.at("steps").back().at("by") == "client");
  CHECK(std::string(memory.data(), memory.size()) == payload);
  const Json out = with.node.Do({"cp", "array", with.folder / "out"});
  CheckSlots(out, "to", "slab");
  CheckRegistered(in, false);
  CheckRegistered(out, false);
  CHECK(ReadFile(with.folder / "out") == payload);
  Must(client.DeleteBuffer("array"));
}
}  // namespace storage_slots_test
