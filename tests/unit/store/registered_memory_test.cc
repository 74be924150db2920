// What a ring registers, and what becomes of it when its memory goes, the kernel refuses, or the
// table is full.
#include "transport/store/posix/registered_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/unit/store/kernel_refusals.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/threads/acting_user.h"
#include "transport/os/threads/event_loop.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/ring.h"

using namespace onecopy;
using namespace onecopy::posix;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kPage = 4096;

// Why there is nothing to be looked at here; empty: there is.
std::string WhyUnable(bool has_ring, const HeldMemory& held) {
  if (!has_ring) return "this process may have no io_uring";
  const auto words = held.Describe();
  const auto why = words.find("not_registered");
  return why == words.end() || why->second.find("RDMA") == std::string::npos ? "" : why->second;
}

// A ring's table without its ring's loop.
struct Table {
  explicit Table(RegisteredMemory::Shape shape = {.part_bytes = kPage, .most_parts = 2}) {
    if (::io_uring_queue_init(4, &ring, 0) != 0) return;
    memory = std::make_unique<RegisteredMemory>(ring, *held, shape);
  }
  ~Table() {
    if (memory == nullptr) return;
    memory = nullptr;
    ::io_uring_queue_exit(&ring);
  }
  int Begin(const Region& region, uint64_t offset = 0, uint64_t bytes = kPage) {
    return memory->Begin(&region, region.address() + offset, bytes);
  }
  std::string Says(const std::string& key) const {
    const auto words = held->Describe();
    const auto found = words.find(key);
    return found == words.end() ? "" : found->second;
  }
  std::string unable() const { return WhyUnable(memory != nullptr, *held); }

  io_uring ring{};
  std::shared_ptr<HeldMemory> held = std::make_shared<HeldMemory>();
  std::unique_ptr<RegisteredMemory> memory;
};

// A ring on a thread of its own, and a file to be read.
class MemoryRig {
 public:
  // `begin` runs on the ring's thread before it is made.
  explicit MemoryRig(const std::function<void()>& begin = [] {})
      : thread_(*os::LoopThread::Make("ring-test")) {
    thread_->RunSync([&] {
      begin();
      auto made = Ring::Make(thread_->loop(), 8, held_);
      if (made.ok()) ring_ = std::move(*made);
    });
    file_ = os::UniqueFd(::memfd_create("file", MFD_CLOEXEC));
    const RegionRef region = HostRegion(kBytes);
    Fill({region, 0, kBytes}, 1);
    REQUIRE(::write(file_.get(), region->address(), kBytes) == static_cast<ssize_t>(kBytes));
  }
  ~MemoryRig() { End(); }

  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  bool has_ring() const { return ring_ != nullptr; }
  HeldMemory& held() { return *held_; }
  IoTally& tally() { return tally_; }
  void End() {
    thread_->RunSync([this] { ring_ = nullptr; });
    thread_->StopAndJoin();
  }
  // Once what was posted before has run.
  void Settle() {
    thread_->RunSync([] {});
  }

  // Of the whole file; as if past the page cache.
  std::future<int64_t> Move(const RegionRef& region, bool write = false) {
    auto result = std::make_shared<std::promise<int64_t>>();
    auto future = result->get_future();
    thread_->loop().Post([this, region, write, result] {
      IoRequest request;
      request.write = write;
      request.direct = true;
      request.fd = file_.get();
      request.region = region.get();
      request.at = region->address();
      request.bytes = kBytes;
      request.tally = &tally_;
      request.ended = [result, region](int64_t bytes) { result->set_value(bytes); };
      ring_->Submit(std::move(request));
    });
    return future;
  }
  std::string unable() const { return WhyUnable(ring_ != nullptr, *held_); }

 private:
  const std::shared_ptr<HeldMemory> held_ = std::make_shared<HeldMemory>();
  IoTally tally_;
  os::UniqueFd file_;
  std::unique_ptr<os::LoopThread> thread_;
  std::unique_ptr<Ring> ring_;
};

constexpr auto kFile = static_cast<int64_t>(MemoryRig::kBytes);

}  // namespace

TEST_CASE("what lies in one part of memory that is held is registered, and nothing else") {
  Table table;
  if (!table.unable().empty()) ONECOPY_SKIP(table.unable());
  const RegionRef held = Pages(3 * kPage);
  const RegionRef other = Pages(kPage);
  CHECK(table.Begin(*held) == RegisteredMemory::kNone);
  table.memory->Hold(held);
  CHECK(table.Says("registered_memory").empty());  // nothing has been moved there
  const int first = table.Begin(*held, 0, 100);
  REQUIRE(first >= 0);
  CHECK(table.Says("registered_memory") == "4 KiB");
  CHECK(table.Begin(*held, 100, kPage - 100) == first);
  CHECK(table.Begin(*held, 100, kPage) == RegisteredMemory::kNone);  // two parts
  CHECK(table.Begin(*held, 0, 0) == RegisteredMemory::kNone);
  CHECK(table.Begin(*held, 3 * kPage - 1, 2) == RegisteredMemory::kNone);  // beyond its end
  CHECK(table.Begin(*other) == RegisteredMemory::kNone);
  CHECK(table.Says("registered_memory") == "4 KiB");
  table.memory->End(first);
  table.memory->End(first);
  table.memory->End(RegisteredMemory::kNone);
}

TEST_CASE("a full table leaves the rest unregistered until something has gone") {
  Table table;
  if (!table.unable().empty()) ONECOPY_SKIP(table.unable());
  RegionRef first = Pages(kPage);
  const RegionRef second = Pages(2 * kPage);
  table.memory->Hold(first);
  table.memory->Hold(second);
  const int gone = table.Begin(*first);
  REQUIRE(gone >= 0);
  REQUIRE(table.Begin(*second) >= 0);
  CHECK(table.Begin(*second, kPage) == RegisteredMemory::kNone);
  table.memory->End(gone);
  first = nullptr;
  table.memory->LetGo();
  CHECK(table.Says("registered_memory") == "4 KiB");
  CHECK(table.Begin(*second, kPage) == gone);
  CHECK(table.Says("registered_memory") == "8 KiB");
  CHECK(table.Says("not_registered").empty());  // the kernel has refused nothing
}

TEST_CASE("nothing is unregistered while something of it is under way") {
  Table table;
  if (!table.unable().empty()) ONECOPY_SKIP(table.unable());
  RegionRef region = Pages(kPage);
  table.memory->Hold(region);
  const int part = table.Begin(*region);
  REQUIRE(part >= 0);
  REQUIRE(table.Begin(*region) == part);
  region = nullptr;
  table.memory->LetGo();
  CHECK(table.Says("registered_memory") == "4 KiB");
  table.memory->End(part);
  CHECK(table.Says("registered_memory") == "4 KiB");
  table.memory->End(part);
  CHECK(table.Says("registered_memory").empty());
}

TEST_CASE("memory that the kernel does not register is asked about once") {
  Table table;
  if (!table.unable().empty()) ONECOPY_SKIP(table.unable());
  const RegionRef region = Pages(kPage);
  REQUIRE(::munmap(region->address(), kPage) == 0);
  table.memory->Hold(region);
  CHECK(table.Begin(*region) == RegisteredMemory::kNone);
  CHECK(table.Says("not_registered").find("4 KiB of memory: ") != std::string::npos);
  table.held->Refused("");
  CHECK(table.Begin(*region) == RegisteredMemory::kNone);
  CHECK(table.Says("not_registered").empty());
  // Others are none the worse.
  const RegionRef next = Pages(kPage);
  table.memory->Hold(next);
  CHECK(table.Begin(*next) >= 0);
}

TEST_CASE("a ring moves what it has registered by that, both ways") {
  MemoryRig rig;
  if (!rig.unable().empty()) ONECOPY_SKIP(rig.unable());
  const RegionRef region = Pages(MemoryRig::kBytes);
  rig.held().Add(region);
  rig.held().Add(region);  // nothing new
  REQUIRE(rig.Move(region).get() == kFile);
  CHECK(FirstWrong({region, 0, MemoryRig::kBytes}, 1) == MemoryRig::kBytes);
  CHECK(rig.tally().in_registered == MemoryRig::kBytes);
  CHECK(rig.held().Describe().at("registered_memory") == "1 MiB");
  Fill({region, 0, MemoryRig::kBytes}, 2);
  REQUIRE(rig.Move(region, true).get() == kFile);
  CHECK(rig.tally().in_registered == 2 * MemoryRig::kBytes);
  const RegionRef other = Pages(MemoryRig::kBytes);
  REQUIRE(rig.Move(other).get() == kFile);
  CHECK(FirstWrong({other, 0, MemoryRig::kBytes}, 2) == MemoryRig::kBytes);
  CHECK(rig.tally().in_registered == 2 * MemoryRig::kBytes);
  CHECK(rig.tally().by_ring == 3 * MemoryRig::kBytes);
}

TEST_CASE("memory that comes to lie where other has gone is no part of that") {
  MemoryRig rig;
  if (!rig.unable().empty()) ONECOPY_SKIP(rig.unable());
  RegionRef region = Pages(MemoryRig::kBytes);
  std::byte* const at = region->address();
  rig.held().Add(region);
  REQUIRE(rig.Move(region).get() == kFile);
  rig.Settle();  // the loop has let go of the request
  REQUIRE(region.use_count() == 1);
  region = nullptr;
  // The kernel may have the old pages still: what is read now must be here all the same.
  for (const bool held : {false, true}) {
    const RegionRef next = Pages(MemoryRig::kBytes, at);
    REQUIRE(next != nullptr);
    if (held) rig.held().Add(next);
    const uint64_t before = rig.tally().in_registered;
    REQUIRE(rig.Move(next).get() == kFile);
    CHECK(FirstWrong({next, 0, MemoryRig::kBytes}, 1) == MemoryRig::kBytes);
    CHECK(rig.tally().in_registered - before == (held ? MemoryRig::kBytes : 0));
    CHECK(rig.held().Describe().contains("registered_memory") == held);
    rig.Settle();
  }
}

TEST_CASE("a ring that has gone has nothing registered, and its memory goes as it likes") {
  RegionRef region = Pages(MemoryRig::kBytes);
  {
    MemoryRig rig;
    if (!rig.unable().empty()) ONECOPY_SKIP(rig.unable());
    rig.held().Add(region);
    REQUIRE(rig.Move(region).get() == kFile);
    rig.End();
    CHECK_FALSE(rig.held().Describe().contains("registered_memory"));
    rig.held().Add(Pages(kPage));
  }
  CHECK(region.use_count() == 1);
  region = nullptr;
}

TEST_CASE("what the kernel has refused to begin keeps nothing registered") {
  MemoryRig rig;
  if (!rig.unable().empty()) ONECOPY_SKIP(rig.unable());
  RegionRef region = Pages(MemoryRig::kBytes);
  rig.held().Add(region);
  const int ring = RingFd();
  REQUIRE(ring >= 0);
  const os::UniqueFd kept(::fcntl(ring, F_DUPFD_CLOEXEC, 0));
  REQUIRE(kept);
  REQUIRE(rig.Move(region).get() == kFile);
  // As long as another file stands in its place the kernel takes nothing.
  const os::UniqueFd zeroes(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  REQUIRE(::dup3(zeroes.get(), ring, O_CLOEXEC) == ring);
  CHECK(rig.Move(region).get() == -EAGAIN);
  REQUIRE(::dup3(kept.get(), ring, O_CLOEXEC) == ring);
  rig.Settle();
  CHECK(rig.held().Describe().at("registered_memory") == "1 MiB");
  region = nullptr;
  rig.Settle();
  CHECK_FALSE(rig.held().Describe().contains("registered_memory"));
}

TEST_CASE("a kernel that has no table for memory is told of once, and moves all the same") {
  bool refused = false;
  MemoryRig rig([&] { refused = RefuseRegister(IORING_REGISTER_BUFFERS2); });
  REQUIRE(refused);
  if (!rig.unable().empty()) ONECOPY_SKIP(rig.unable());
  const RegionRef region = Pages(MemoryRig::kBytes);
  rig.held().Add(region);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(rig.Move(region).get() == kFile);
    CHECK(FirstWrong({region, 0, MemoryRig::kBytes}, 1) == MemoryRig::kBytes);
  }
  CHECK(rig.tally().in_registered == 0);
  CHECK(rig.held().Describe().at("not_registered").find("no table for memory: ") !=
        std::string::npos);
}

TEST_CASE("where the limit on locked memory counts, it is left to others") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  // Enough for a ring: newer kernels count what that takes.
  const rlimit little{uint64_t{1} << 20, before.rlim_max};
  if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0) ONECOPY_SKIP("the limit is lower already");
  std::optional<uint64_t> limit;
  // As one who has no rights of root's.
  MemoryRig rig([&] {
    os::ActFor(Uid(65533), 65533);
    limit = os::LockedMemoryLimit();
  });
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  if (!rig.has_ring()) ONECOPY_SKIP("this process may have no io_uring");
  CHECK(limit == little.rlim_cur);
  CHECK(rig.unable().find("1 MiB") != std::string::npos);
  const RegionRef region = Pages(MemoryRig::kBytes);
  rig.held().Add(region);
  REQUIRE(rig.Move(region).get() == kFile);
  CHECK(FirstWrong({region, 0, MemoryRig::kBytes}, 1) == MemoryRig::kBytes);
  CHECK(rig.tally().in_registered == 0);
}
