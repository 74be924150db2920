#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/memory/suite.h"
#include "tests/support/event.h"

namespace onecopy::testing {
namespace {

// All the places between which the memory may be asked to copy.
std::vector<Place> Places(Subject& subject) {
  std::vector<Place> places = {{"host", ""}};
  for (const std::string& device : subject.devices()) {
    const Place place{subject.memory().kind(), device};
    if (place != places.front()) places.push_back(place);
  }
  return places;
}

RegionRef RegionAt(Subject& subject, const Place& place, const Bytes& content) {
  if (place.kind == "host") return HostRegion(content);
  RegionRef region = AllocateOrFail(subject, place.device, content.size());
  WriteAll(subject.memory(), region, content);
  return region;
}

Bytes ReadAt(Subject& subject, const RegionRef& region) {
  return ReadAll(subject.memory(), region);
}

TEST_CASE("copies reach every byte and no other, at odd offsets and lengths, in every direction") {
  ONECOPY_SUBJECT(subject);
  unsigned pairs = 0;
  for (const Place& from : Places(subject)) {
    for (const Place& to : Places(subject)) {
      if (!subject.memory().Copies(from, to)) continue;
      ++pairs;
      INFO(from.kind << " " << from.device << " to " << to.kind << " " << to.device);
      const Bytes source = Pattern(300'007, 31);
      Bytes expected = Pattern(250'013, 32);
      const RegionRef from_region = RegionAt(subject, from, source);
      const RegionRef to_region = RegionAt(subject, to, expected);
      auto route = subject.memory().Prepare(from_region, to_region);
      REQUIRE_OK(route);
      CHECK((*route)->depth() > 0);
      CHECK((*route)->chunk_bytes() > 0);
      const std::vector<std::array<size_t, 3>> pieces = {{0, 0, 1},
                                                         {1, 3, 7},
                                                         {4095, 65537, 4097},
                                                         {100'003, 99'991, 150'001},
                                                         {300'006, 250'012, 1}};
      for (const auto& [at, into, bytes] : pieces) {
        const Outcome outcome = CopyNow(**route, at, into, bytes);
        REQUIRE_OK(outcome.status);
        CHECK(outcome.on_executor);
        REQUIRE(outcome.steps != nullptr);
        CHECK(*outcome.steps == *(*route)->steps());
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(at), bytes,
                    expected.begin() + static_cast<ptrdiff_t>(into));
      }
      CHECK(ReadAt(subject, to_region) == expected);
      CHECK(ReadAt(subject, from_region) == source);
    }
  }
  CHECK(pairs > 0);
}

TEST_CASE("a copy is one step that names both memories, what copied, and where") {
  ONECOPY_SUBJECT(subject);
  RegionRef mine = AllocateOrFail(subject, subject.devices().front(), 4096);
  auto staging = HostRegion(Bytes(4096));
  staging->SetStepName("pinned");
  auto route = subject.memory().Prepare(staging, mine);
  REQUIRE_OK(route);
  const StepList steps = CopyNow(**route, 0, 0, 4096).steps;
  REQUIRE(steps->size() == 1);
  CHECK(steps->front() ==
        Step{.node = "test", .from = "pinned", .to = mine->step_name(), .by = subject.copied_by()});
}

TEST_CASE("what reaches beyond either memory is not copied, and fails") {
  ONECOPY_SUBJECT(subject);
  constexpr uint64_t kMost = ~uint64_t{0};
  const Bytes content = Pattern(4096, 6);
  const RegionRef from = HostRegion(Pattern(4096, 5));
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), content.size());
  WriteAll(subject.memory(), to, content);
  auto route = subject.memory().Prepare(from, to);
  REQUIRE_OK(route);
  const std::vector<std::array<uint64_t, 3>> pieces = {
      {0, 0, 4097},      {1, 0, 4096},        {0, 1, 4096},      {4097, 0, 0},
      {0, kMost, 16},    {kMost - 15, 0, 16}, {0, 1 << 30, 1},   {uint64_t{1} << 46, 0, 1},
      {kMost, kMost, 1}, {0, 0, kMost},       {16, 0, kMost - 8}};
  for (const auto& [at, into, bytes] : pieces) {
    INFO(bytes << " bytes from " << at << " to " << into);
    const Outcome one = CopyNow(**route, at, into, bytes);
    CHECK(one.on_executor);
    CHECK(one.status.code() == Code::kInternal);
    CHECK(one.status.reason() == reasons::kRangeOutOfBuffer);
    const Outcome many = CopyManyNow(**route, {{0, 0, 1, 0, 0, 1}, {at, into, bytes, 0, 0, 1}});
    CHECK(many.status.reason() == reasons::kRangeOutOfBuffer);
  }
  const std::vector<StridedCopy> strided = {{0, 0, 8, 4096, 8, 2},
                                            {0, 0, 8, 8, 4096, 2},
                                            {0, 0, 8, kMost / 2 + 1, 8, 3},
                                            {0, 0, 8, 8, kMost, 2},
                                            {0, 0, 1, 1, 1, kMost}};
  for (const StridedCopy& copy : strided) {
    INFO(copy.count << " strides of " << copy.from_stride << " and " << copy.to_stride);
    CHECK(CopyManyNow(**route, {copy}).status.reason() == reasons::kRangeOutOfBuffer);
  }
  CHECK(ReadAll(subject.memory(), to) == content);
}

TEST_CASE("a copy of no bytes completes and touches nothing") {
  ONECOPY_SUBJECT(subject);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), 100);
  auto route = subject.memory().Prepare(HostRegion(Pattern(100, 5)), to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 100, 0, 0).status);
  CHECK(ReadAll(subject.memory(), to) == Bytes(100));
}

TEST_CASE("many copies of several threads are under way at once, and each completes once") {
  ONECOPY_SUBJECT(subject);
  constexpr unsigned kThreads = 4;
  constexpr unsigned kEach = 200;
  constexpr uint64_t kPiece = 10'007;
  const Bytes source = Pattern(kThreads * kEach * kPiece, 41);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), source.size());
  auto route = subject.memory().Prepare(HostRegion(source), to);
  REQUIRE_OK(route);
  std::vector<std::atomic<int>> completions(kThreads * kEach);
  std::atomic<unsigned> failures{0};
  std::atomic<unsigned> left{kThreads * kEach};
  Event all;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < kEach; ++i) {
        const unsigned piece = t * kEach + i;
        (*route)->Copy(piece * kPiece, piece * kPiece, kPiece,
                       [&, piece](const Status& status, const StepList&) {
                         if (!status.ok() || !(*route)->executor().InThread()) ++failures;
                         ++completions[piece];
                         if (--left == 0) all.Set();
                       });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.Wait();
  route->reset();  // nothing completes any more
  CHECK(failures == 0);
  CHECK(std::all_of(completions.begin(), completions.end(), [](const auto& n) { return n == 1; }));
  CHECK(ReadAll(subject.memory(), to) == source);
}

TEST_CASE("both directions are under way at once") {
  ONECOPY_SUBJECT(subject);
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  constexpr unsigned kPieces = 16;
  const std::string device = subject.devices().front();
  const Bytes up = Pattern(kPieces * kPiece, 51);
  const Bytes down = Pattern(kPieces * kPiece, 52);
  const RegionRef into = AllocateOrFail(subject, device, up.size());
  const RegionRef out_of = AllocateOrFail(subject, device, down.size());
  WriteAll(subject.memory(), out_of, down);
  const RegionRef arrived = HostRegion(Bytes(down.size()));
  auto in = subject.memory().Prepare(HostRegion(up), into);
  auto out = subject.memory().Prepare(out_of, arrived);
  REQUIRE_OK(in);
  REQUIRE_OK(out);
  std::atomic<unsigned> left{2 * kPieces};
  std::atomic<unsigned> failures{0};
  Event all;
  const auto done = [&](const Status& status, const StepList&) {
    if (!status.ok()) ++failures;
    if (--left == 0) all.Set();
  };
  for (unsigned i = 0; i < kPieces; ++i) {
    (*in)->Copy(i * kPiece, i * kPiece, kPiece, done);
    (*out)->Copy(i * kPiece, i * kPiece, kPiece, done);
  }
  all.Wait();
  CHECK(failures == 0);
  CHECK(ReadAll(subject.memory(), into) == up);
  CHECK(ReadAll(subject.memory(), arrived) == down);
}

TEST_CASE("a completion may begin the next copy") {
  ONECOPY_SUBJECT(subject);
  constexpr unsigned kRounds = 500;
  const Bytes source = Pattern(kRounds, 61);
  const RegionRef to = AllocateOrFail(subject, subject.devices().front(), kRounds);
  auto route = subject.memory().Prepare(HostRegion(source), to);
  REQUIRE_OK(route);
  Status failure;
  Event ended;
  std::function<void(unsigned)> next = [&](unsigned at) {
    (*route)->Copy(at, at, 1, [&, at](const Status& status, const StepList&) {
      failure = status;
      if (!status.ok() || at + 1 == kRounds) return ended.Set();
      next(at + 1);
    });
  };
  next(0);
  ended.Wait();
  REQUIRE_OK(failure);
  CHECK(ReadAll(subject.memory(), to) == source);
}

TEST_CASE("a route keeps both its regions") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(100'000, 71);
  RegionRef from = HostRegion(source);
  RegionRef to = AllocateOrFail(subject, subject.devices().front(), source.size());
  const std::weak_ptr<Region> from_seen = from;
  const std::weak_ptr<Region> to_seen = to;
  auto route = subject.memory().Prepare(from, to);
  REQUIRE_OK(route);
  auto back = subject.memory().Prepare(to, HostRegion(Bytes(source.size())));
  REQUIRE_OK(back);
  from.reset();
  to.reset();
  REQUIRE(from_seen.lock() != nullptr);
  REQUIRE_OK(CopyNow(**route, 0, 0, source.size()).status);
  CHECK(ReadAll(subject.memory(), to_seen.lock()) == source);
  route->reset();
  CHECK(from_seen.lock() == nullptr);
  back->reset();
  CHECK(to_seen.lock() == nullptr);
}

TEST_CASE("what the memory does not copy it says so, and refuses to prepare") {
  ONECOPY_SUBJECT(subject);
  const Place mine{subject.memory().kind(), subject.devices().front()};
  CHECK(subject.memory().Copies(mine, mine));
  CHECK(subject.memory().Copies({"host", ""}, mine));
  CHECK_FALSE(subject.memory().Copies(mine, {"tape", ""}));
  CHECK_FALSE(subject.memory().Copies({"tape", ""}, mine));
  CHECK_FALSE(subject.memory().Copies({"tape", ""}, {"tape", ""}));
}

TEST_CASE("routes over one region are prepared and let go by several threads at once") {
  ONECOPY_SUBJECT(subject);
  const Bytes source = Pattern(20'000, 81);
  const RegionRef host = HostRegion(source);
  std::atomic<unsigned> failures{0};
  std::vector<std::thread> threads;
  const std::vector<std::string> devices = subject.devices();
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 20; ++round) {
        auto region = subject.Make(devices[t % devices.size()], source.size());
        if (!region.ok()) {
          ++failures;
          continue;
        }
        auto route = subject.memory().Prepare(host, RegionRef(std::move(*region)));
        if (!route.ok() || !CopyNow(**route, 0, 0, source.size()).status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

}  // namespace
}  // namespace onecopy::testing
