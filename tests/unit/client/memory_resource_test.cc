// What can be put before a resource: logging, limiting, counting, and looking for leaks.
#include "onecopy/memory_resource.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

// Memory of malloc, no more than a MiB at a time.
class Heap final : public MemoryResource {
 public:
  ~Heap() override {
    for (void* each : held_) std::free(each);
  }
  Result<void*> Allocate(uint64_t bytes, StreamHandle) override {
    ++calls;
    if (bytes > 1'048'576) return Status(Code::kResourceExhausted, reasons::kNoMemory, "too much");
    return *held_.insert(std::malloc(bytes)).first;
  }
  Status Deallocate(void* pointer, uint64_t, StreamHandle) override {
    if (pointer == nullptr) return OkStatus();
    if (held_.erase(pointer) == 0) {
      return {Code::kInvalidArgument, reasons::kBadPointer, "not of this heap"};
    }
    std::free(pointer);
    return OkStatus();
  }

  int calls = 0;

 private:
  std::set<void*> held_;
};

// Each call takes as long as the test says.
class Slow final : public MemoryResource {
 public:
  Result<void*> Allocate(uint64_t, StreamHandle) override {
    Wait();
    return &byte_;
  }
  Status Deallocate(void*, uint64_t, StreamHandle) override {
    Wait();
    return OkStatus();
  }

  std::promise<void> begun;
  std::promise<void> ends;

 private:
  void Wait() {
    begun.set_value();
    ends.get_future().wait();
  }

  std::byte byte_{};
};

// What a child gets that is forked while another thread is in a call of the resource; a child that
// waits for that thread ends by its alarm.
template <typename Resource, typename Call>
void CheckForked(const std::shared_ptr<Slow>& slow, Resource& resource, const Call& under_way) {
  std::jthread other([&] { under_way(resource); });
  slow->begun.get_future().wait();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(20);
    int byte = 0;
    const Status refused = resource.Allocate(1, 0).status();
    const bool as_said = refused.reason() == reasons::kForked &&
                         refused.message().starts_with("this memory resource was made before") &&
                         resource.Deallocate(&byte, 1, 0).reason() == reasons::kForked &&
                         resource.Deallocate(nullptr, 0, 0).ok();
    ::_exit(as_said ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  slow->ends.set_value();
}

}  // namespace

TEST_CASE("a forked child is refused, also where another thread was in the midst of a call") {
  const auto slow = std::make_shared<Slow>();
  SECTION("limiting") {
    LimitingResource limited(slow, 1000);
    int byte = 0;
    CheckForked(slow, limited, [&](auto& each) { (void)each.Deallocate(&byte, 1, 0); });
  }
  SECTION("counting") {
    StatisticsResource counted(slow);
    CheckForked(slow, counted, [](auto& each) { (void)each.Allocate(1, 0); });
  }
  SECTION("looking for leaks") {
    LeakCheckResource checked(slow, {});
    CheckForked(slow, checked, [](auto& each) { (void)each.Allocate(1, 0); });
  }
}

TEST_CASE("a logging resource tells of each call and its outcome") {
  std::vector<std::string> lines;
  LoggingResource log(std::make_shared<Heap>(),
                      [&](const std::string& line) { lines.push_back(line); });
  const Result<void*> made = log.Allocate(100, 0x20);
  REQUIRE_OK(made);
  CHECK(log.Allocate(2'000'000, 0).status().reason() == reasons::kNoMemory);
  REQUIRE_OK(log.Deallocate(*made, 100, 0x20));
  CHECK(log.Deallocate(*made, 100, 0).reason() == reasons::kBadPointer);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("allocate 100 stream 0x20: 0x"));
  CHECK(lines[1] == "allocate 2000000 stream 0x0: NO_MEMORY: too much");
  CHECK(lines[2].ends_with(" stream 0x20: OK"));
  CHECK(lines[3].ends_with(" stream 0x0: BAD_POINTER: not of this heap"));
}

TEST_CASE("a limiting resource allows so much, and what comes back counts again") {
  const auto heap = std::make_shared<Heap>();
  LimitingResource limited(heap, 1000);
  const Result<void*> one = limited.Allocate(600, 0);
  REQUIRE_OK(one);
  const Status refused = limited.Allocate(401, 0).status();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == reasons::kQuota);
  CHECK(heap->calls == 1);
  CHECK(limited.bytes_in_use() == 600);
  REQUIRE_OK(limited.Allocate(400, 0));
  CHECK(limited.Allocate(UINT64_MAX, 0).status().reason() == reasons::kQuota);
  REQUIRE_OK(limited.Deallocate(*one, 0, 0));  // the size is known here
  CHECK(limited.bytes_in_use() == 400);
  CHECK(limited.Deallocate(*one, 600, 0).reason() == reasons::kBadPointer);
  CHECK(limited.bytes_in_use() == 400);
}

TEST_CASE("what the upstream refuses does not count against a limit") {
  LimitingResource limited(std::make_shared<Heap>(), 3'000'000);
  CHECK(limited.Allocate(2'000'000, 0).status().reason() == reasons::kNoMemory);
  CHECK(limited.bytes_in_use() == 0);
}

TEST_CASE("a counting resource knows what is, what was at most, and what failed") {
  StatisticsResource counted(std::make_shared<Heap>());
  const Result<void*> one = counted.Allocate(100, 0);
  const Result<void*> two = counted.Allocate(200, 0);
  REQUIRE_OK(one);
  REQUIRE_OK(two);
  REQUIRE_OK(counted.Deallocate(*one, 0, 0));
  REQUIRE_OK(counted.Deallocate(nullptr, 0, 0));
  CHECK(!counted.Deallocate(*one, 0, 0).ok());
  CHECK(!counted.Allocate(2'000'000, 0).ok());
  const ResourceCounts counts = counted.counts();
  CHECK(counts.allocations == 2);
  CHECK(counts.deallocations == 1);
  CHECK(counts.failures == 2);
  CHECK(counts.bytes_in_use == 200);
  CHECK(counts.peak_bytes == 300);
  CHECK(counts.total_bytes == 300);
}

TEST_CASE("what was not given back is told, the oldest first") {
  std::vector<LeakCheckResource::Leak> found;
  {
    LeakCheckResource checked(
        std::make_shared<Heap>(),
        [&](const std::vector<LeakCheckResource::Leak>& leaks) { found = leaks; });
    const Result<void*> one = checked.Allocate(1, 0);
    REQUIRE_OK(checked.Allocate(2, 7));
    REQUIRE_OK(checked.Allocate(3, 0));
    REQUIRE_OK(one);
    REQUIRE_OK(checked.Deallocate(*one, 0, 0));
    CHECK(!checked.Deallocate(&found, 0, 0).ok());
    CHECK(checked.Outstanding().size() == 2);
  }
  REQUIRE(found.size() == 2);
  CHECK(found[0].bytes == 2);
  CHECK(found[0].stream == 7);
  CHECK(found[0].number == 2);
  CHECK(found[1].bytes == 3);
  int calls = 0;
  {
    const LeakCheckResource clean(std::make_shared<Heap>(), [&](const auto&) { ++calls; });
  }
  CHECK(calls == 0);
}

TEST_CASE("adaptors stack, and any thread may use them") {
  const auto counted = std::make_shared<StatisticsResource>(
      std::make_shared<LeakCheckResource>(std::make_shared<Heap>()));
  LimitingResource limited(counted, 1 << 20);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int index = 0; index < 4; ++index) {
      threads.emplace_back([&] {
        for (uint64_t round = 1; round <= 500; ++round) {
          const Result<void*> made = limited.Allocate(round, 0);
          if (!made.ok() || !limited.Deallocate(*made, 0, 0).ok()) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(limited.bytes_in_use() == 0);
  CHECK(counted->counts().allocations == 2000);
  CHECK(counted->counts().bytes_in_use == 0);
}
