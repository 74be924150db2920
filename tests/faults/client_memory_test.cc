// Memory of clients that is not all there: it costs the daemon nothing to read, and fails what
// needs it, never the daemon.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace client_memory_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kHuge = 2 * kMiB;

UniqueFd SparseMemfd(uint64_t bytes, unsigned flags = 0) {
  UniqueFd fd(::memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC | flags));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  return fd;
}

uint64_t BytesGiven(const UniqueFd& fd) {
  struct stat facts {};
  REQUIRE(::fstat(fd.get(), &facts) == 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

// Two nodes, and a client of east.
struct Clients {
  explicit Clients(const std::string& config = {}) : pair(config) {}

  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  Kept in_east{east};
  Kept in_west{west};
  Client client = east.Connect();

  void Create(const Node& node, const std::string& name, uint64_t bytes) {
    node.Do({"buffer", "create", name, "--size", std::to_string(bytes), "--memory", "host"});
  }
  Status Run(const std::string& from_node, const std::string& from, const std::string& to_node,
             const std::string& to, std::optional<uint64_t> bytes = {}) {
    auto done = client.RunTransfer(
        {.source = {from_node, from, {}, bytes}, .destination = {to_node, to, {}, bytes}});
    return done.ok() ? done->error : done.status();
  }
  void Check() {
    in_east.CheckUnchanged();
    in_west.CheckUnchanged();
    CheckServes(east);
    CheckServes(west);
    CheckMoves(east, west);
    CheckMoves(west, east);
  }
};

// So many huge pages more, and what there were before once it ends. They are the machine's: tests
// of other runs that want some wait until this ends.
class HugePages {
 public:
  explicit HugePages(int pages) : setting_(::open(kFile, O_RDONLY | O_CLOEXEC)) {
    if (!setting_ || ::flock(setting_.get(), LOCK_EX) != 0) {
      throw std::system_error(errno, std::generic_category(), kFile);
    }
    before_ = Read();
    Set(before_ + pages);
  }
  ~HugePages() { Write(before_); }
  static bool Available() {
    struct stat facts {};
    return ::geteuid() == 0 && ::stat(kFile, &facts) == 0;
  }
  bool complete() const { return complete_; }
  // Those that are nobody's: this test's, and any that were there before it.
  void TakeFree() { Set(Read() - (Fact("HugePages_Free:") - Fact("HugePages_Rsvd:"))); }

 private:
  static constexpr const char* kFile = "/proc/sys/vm/nr_hugepages";
  static int Read() {
    int pages = 0;
    std::ifstream(kFile) >> pages;
    return pages;
  }
  static int Fact(const std::string& wanted) {
    std::ifstream facts("/proc/meminfo");
    for (std::string name, value; facts >> name && std::getline(facts, value);) {
      if (name == wanted) return std::stoi(value);
    }
    throw std::runtime_error("/proc/meminfo has no " + wanted);
  }
  static void Write(int pages) { std::ofstream(kFile) << pages; }
  void Set(int pages) {
    Write(pages);
    complete_ = Read() == pages;
  }
  const UniqueFd setting_;
  int before_ = 0;
  bool complete_ = false;
};

// Huge pages of which the second has been taken away, and given to nobody who would give it back.
struct TornHugePages {
  HugePages pages{2};
  UniqueFd fd;
  onecopy::os::Mapping mapping;

  // Whether this machine plays along.
  bool Fill() {
    if (!pages.complete()) return false;
    fd = SparseMemfd(2 * kHuge, MFD_HUGETLB);
    mapping = *onecopy::os::MapShared(fd.get(), 2 * kHuge);
    std::memset(mapping.data(), 'h', 2 * kHuge);
    return true;
  }
  void Tear() {
    REQUIRE(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(kHuge), static_cast<off_t>(kHuge)) == 0);
    pages.TakeFree();
    REQUIRE(pages.complete());
  }
};

#define REQUIRE_HUGE_PAGES(torn)                                                   \
  if (!HugePages::Available()) ONECOPY_SKIP("only root can set huge pages aside"); \
  TornHugePages torn;                                                              \
  if (!(torn).Fill()) ONECOPY_SKIP("this machine has no two huge pages to spare")

void CheckMemoryFault(const Status& status) {
  CheckFailed(status, Code::kAborted, "MEMORY_FAULT");
  CHECK(status.remedy() != "");
}

}  // namespace

TEST_CASE("reading what a client has never written gives it no memory, on any path") {
  constexpr uint64_t kBytes = 64 * kMiB;
  Clients with;
  const UniqueFd fd = SparseMemfd(kBytes);
  REQUIRE_OK(with.client.RegisterMemfd("m", fd.get(), 0, kBytes));
  with.Create(with.east, "zeros", kBytes);
  with.Create(with.west, "zeros", kBytes);
  CHECK(Must(with.client.SumBuffer({"", "m", {}, {}})).value ==
        Must(with.client.SumBuffer({"", "zeros", {}, {}})).value);
  CHECK(BytesGiven(fd) == 0);
  REQUIRE_OK(with.Run("", "m", "", "zeros"));
  CHECK(BytesGiven(fd) == 0);
  REQUIRE_OK(with.Run("", "m", "", "zeros", 1000));  // a small one
  CHECK(BytesGiven(fd) == 0);
  REQUIRE_OK(with.Run("", "m", "west", "zeros", 1000));
  CHECK(BytesGiven(fd) == 0);
  const auto there = Must(with.client.RunTransfer(
      {.source = {"", "m", {}, {}}, .destination = {"west", "zeros", {}, {}}, .checksum = true}));
  REQUIRE_OK(there.error);
  CHECK(BytesGiven(fd) == 0);
  // It went through slots, and the receipt says why.
  CHECK(there.receipt.path != "tcp-direct");
  CHECK(std::any_of(there.receipt.refused.begin(), there.receipt.refused.end(),
                    [](const auto& refusal) {
                      return refusal.path == "tcp-direct" && refusal.reason == "HAS_HOLES";
                    }));
  // Who wants nothing else is told before a byte moves.
  const auto refused = with.client.RunTransfer({.source = {"", "m", {}, {}},
                                                .destination = {"west", "zeros", {}, {}},
                                                .policy = {.path_glob = "tcp-direct"}});
  const Status why = refused.ok() ? refused->error : refused.status();
  CheckFailed(why, Code::kFailedPrecondition, "POLICY_UNMET");
  CHECK(BytesGiven(fd) == 0);
  // Once there is memory for all of it, it goes from where it lies.
  REQUIRE(::fallocate(fd.get(), 0, 0, static_cast<off_t>(kBytes)) == 0);
  const auto direct = Must(with.client.RunTransfer({.source = {"", "m", {}, {}},
                                                    .destination = {"west", "zeros", {}, {}},
                                                    .policy = {.path_glob = "tcp-direct"}}));
  REQUIRE_OK(direct.error);
  REQUIRE_OK(with.client.DeleteBuffer("m"));
  with.Check();
}

TEST_CASE("bytes that a client's file has no memory for must fit into the machine's") {
  Clients with;
  constexpr uint64_t kTiB = uint64_t{1} << 40;
  const UniqueFd fd = SparseMemfd(64 * kTiB);
  const uint64_t before = ResidentBytes(with.east.process().pid());
  const Status refused = with.client.RegisterMemfd("m", fd.get(), 0, 64 * kTiB).status();
  CheckFailed(refused, Code::kResourceExhausted, "NO_MEMORY");
  CHECK(refused.message().find("64 TiB") != std::string::npos);
  // A piece of it that fits is welcome.
  REQUIRE_OK(with.client.RegisterMemfd("m", fd.get(), 5 * kTiB, kMiB));
  REQUIRE_OK(with.client.SumBuffer({"", "m", {}, {}}));
  CHECK(BytesGiven(fd) == 0);
  CHECK(ResidentBytes(with.east.process().pid()) < before + 64 * kMiB);
  REQUIRE_OK(with.client.DeleteBuffer("m"));
  with.Check();
}

TEST_CASE("huge pages that a client took away read as zeros") {
  REQUIRE_HUGE_PAGES(torn);
  Clients with;
  REQUIRE_OK(with.client.RegisterMemfd("h", torn.fd.get(), 0, 2 * kHuge));
  with.Create(with.east, "a", 2 * kHuge);
  with.Create(with.west, "b", 2 * kHuge);
  torn.Tear();
  REQUIRE_OK(with.client.SumBuffer({"", "h", {}, {}}));
  REQUIRE_OK(with.Run("", "h", "", "a"));
  REQUIRE_OK(with.Run("", "h", "west", "b"));
  const std::string expected = std::string(kHuge, 'h') + std::string(kHuge, '\0');
  CHECK(Contents(with.east, "a") == expected);
  CHECK(Contents(with.west, "b") == expected);
  REQUIRE_OK(with.client.DeleteBuffer("h"));
  with.Check();
}

TEST_CASE("a transfer into huge pages that are gone fails, and nothing else") {
  REQUIRE_HUGE_PAGES(torn);
  const bool remote = GENERATE(false, true);
  const bool small = GENERATE(false, true);
  CAPTURE(remote, small);
  Clients with;
  const Node& from = remote ? with.west : with.east;
  const uint64_t bytes = small ? 8192 : 2 * kHuge;
  with.Create(from, "a", bytes);
  REQUIRE_OK(with.client.RegisterMemfd("h", torn.fd.get(), small ? kHuge : 0, bytes));
  // It works before, so that the same way is taken again.
  REQUIRE_OK(with.Run(remote ? "west" : "", "a", "", "h"));
  torn.Tear();
  CheckMemoryFault(with.Run(remote ? "west" : "", "a", "", "h"));
  // What the processor has found missing stays so, also for reading.
  if (!remote) {
    CheckMemoryFault(with.client.SumBuffer({"", "h", {}, {}}).status());
    CheckMemoryFault(with.Run("", "h", "", "a"));
  }
  REQUIRE_OK(with.client.DeleteBuffer("h"));
  with.Check();
}

TEST_CASE("a memory file that is cut short fails what needs it, and nothing else") {
  const bool remote = GENERATE(false, true);
  const bool out = GENERATE(false, true);
  const uint64_t bytes = GENERATE(uint64_t{8192}, 32 * kMiB);
  CAPTURE(remote, out, bytes);
  Clients with;
  const std::string there = remote ? "west" : "";
  with.Create(remote ? with.west : with.east, "a", bytes);
  const UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
  REQUIRE_OK(with.client.RegisterMemfd("m", fd.get(), 0, bytes));
  const auto run = [&] {
    return out ? with.Run("", "m", there, "a") : with.Run(there, "a", "", "m");
  };
  REQUIRE_OK(run());
  REQUIRE_OK(run());  // a small one goes by the ring then
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes / 2)) == 0);
  CheckMemoryFault(run());
  CheckMemoryFault(with.client.SumBuffer({"", "m", {}, {}}).status());
  REQUIRE_OK(with.client.DeleteBuffer("m"));
  with.Check();
}

TEST_CASE("a memory file that is cut short while it is moved fails that transfer alone") {
  constexpr uint64_t kBytes = 64 * kMiB;
  const bool out = GENERATE(false, true);
  CAPTURE(out);
  Clients with(kSlowLanes);
  with.Create(with.west, "a", kBytes);
  const UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(kBytes)) == 0);
  REQUIRE(::fallocate(fd.get(), 0, 0, static_cast<off_t>(kBytes)) == 0);
  REQUIRE_OK(with.client.RegisterMemfd("m", fd.get(), 0, kBytes));
  onecopy::TransferRequest request{.source = {"", "m", {}, {}},
                                   .destination = {"west", "a", {}, {}}};
  if (!out) std::swap(request.source, request.destination);
  const TransferInfo started = StartAndSeeRunning(with.client, request);
  REQUIRE(::ftruncate(fd.get(), 4096) == 0);
  CheckMemoryFault(Must(with.client.AwaitTransfer(started.id)).error);
  REQUIRE_OK(with.client.DeleteBuffer("m"));
  with.Check();
}
}  // namespace client_memory_test
