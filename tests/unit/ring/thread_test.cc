// The thread that serves rings: real copies between host memories.
#include <atomic>
#include <set>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/ring/thread_rig.h"

using namespace onecopy;
using namespace onecopy::ring;

namespace {

// A short route whose copies end when the test lets them.
class HeldRoute final : public SmallCopyRoute {
 public:
  explicit HeldRoute(std::atomic<uint64_t>& reached) : reached_(reached) {}
  Status Begin(uint64_t, uint64_t, uint64_t) override {
    ++begun_;
    return OkStatus();
  }
  uint64_t Mark() override { return begun_; }
  bool Reached(uint64_t mark, Status* failure) override {
    if (mark > reached_) return false;
    if (fails) *failure = Status(Code::kFailedPrecondition, reasons::kGpuLost, "lost");
    return true;
  }
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }
  bool fails = false;

 private:
  std::atomic<uint64_t>& reached_;
  uint64_t begun_ = 0;
  const std::shared_ptr<const SmallSteps> steps_ =
      std::make_shared<SmallSteps>(std::make_shared<const std::vector<Step>>());
};

}  // namespace

TEST_CASE("what is submitted is copied, in any number of pieces, and noted") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 1);
  const Rig::Attached one = rig.Attach();
  const std::shared_ptr<Route> route = Rig::Between(from, to);
  const uint64_t word = rig.Install(one.id, 0, route);
  const uint64_t piece = GENERATE(64, 4096, kMaxBytes);
  const uint64_t pieces = kBuffer / piece;
  uint64_t submitted = 0;
  uint64_t ended = 0;
  while (ended < pieces) {
    uint64_t number = 0;
    if (submitted < pieces &&
        one.client->end.Submit(word, submitted * piece, submitted * piece, piece, &number)) {
      ++submitted;
      continue;
    }
    const Ended next = one.client->Next();
    CHECK(next.number == ended++);
    CHECK(next.code == Code::kOk);
  }
  CHECK(testing::FirstWrong({to, 0, kBuffer}, 1) == kBuffer);
  CHECK(one.journal->succeeded() == pieces);
  CHECK(one.journal->bytes() == kBuffer);
  const auto last = one.journal->Read(pieces - 1);
  REQUIRE(last);
  CHECK(last->bytes == piece);
  CHECK(last->from == kBuffer - piece);
  CHECK(last->outcome == Outcome::kSucceeded);
  CHECK(last->taken <= last->ended);
  const Counts::Values counts = route->counts.Read();
  CHECK(counts.succeeded() == pieces);
  CHECK(counts.bytes() == kBuffer);
  CHECK(counts.sizes.counts[SizeClasses::Of(piece)] == pieces);
  CHECK(counts.durations.sum > 0);
  for (const uint64_t failed : counts.failed) CHECK(failed == 0);
}

TEST_CASE("what a route does not allow is refused, and writes nothing") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 1);
  testing::Fill({to, 0, kBuffer}, 2);
  const Rig::Attached one = rig.Attach();
  auto route = Rig::Between(from, to);
  route->from = {4096, 8192};
  route->to = {0, 4096};
  const uint64_t word = rig.Install(one.id, 5, route);
  const auto refused = [&](uint64_t name, uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                           Code code, std::string_view reason) {
    CAPTURE(from_offset, to_offset, bytes);
    one.client->Submit(name, from_offset, to_offset, bytes);
    ExpectRefusal(one.client->Next(), code, reason);
  };
  const auto outside = [&](uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
    refused(word, from_offset, to_offset, bytes, Code::kOutOfRange, reasons::kRangeOutOfBuffer);
  };
  outside(0, 0, 4096);
  outside(4095, 0, 1);
  outside(12288, 0, 1);
  outside(12287, 0, 2);
  outside(4096, 1, 4096);
  outside(4096, 4096, 1);
  outside(UINT64_MAX, 0, 2);
  outside(4096, UINT64_MAX - 1, 4096);
  outside(uint64_t{1} << 63, uint64_t{1} << 63, 4096);
  refused(word, 4096, 0, 0, Code::kInvalidArgument, reasons::kBadSize);
  refused(word, 4096, 0, kMaxBytes + 1, Code::kInvalidArgument, reasons::kBadSize);
  refused(word, 4096, 0, UINT64_MAX, Code::kInvalidArgument, reasons::kBadSize);
  for (const uint64_t name : {uint64_t{0}, uint64_t{5}, word + 1, word + 256, word + kRoutes,
                              UINT64_MAX, RouteWord(route->serial, 255)}) {
    refused(name, 4096, 0, 1, Code::kInvalidArgument, reasons::kBadArgument);
  }
  CHECK(testing::FirstWrong({to, 0, kBuffer}, 2) == kBuffer);
  const Counts::Values counts = route->counts.Read();
  CHECK(counts.succeeded() == 0);
  CHECK(counts.failed[static_cast<size_t>(Outcome::kOutOfRange)] == 9);
  CHECK(counts.failed[static_cast<size_t>(Outcome::kTooLong)] == 3);
  const Counts::Values others = one.journal->without_route().Read();
  CHECK(others.failed[static_cast<size_t>(Outcome::kNoRoute)] == 7);
  one.client->Submit(word, 4096, 0, 4096);
  CHECK(one.client->Next().code == Code::kOk);
  CHECK(testing::FirstWrong({to, 0, 4096}, 1, 4096) == 4096);
  CHECK(one.journal->succeeded() == 1);
}

TEST_CASE("ranges of one buffer must not overlap") {
  Rig rig;
  const RegionRef buffer = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  const uint64_t word = rig.Install(one.id, 0, Rig::Between(buffer, buffer));
  one.client->Submit(word, 0, 4095, 4096);
  ExpectRefusal(one.client->Next(), Code::kInvalidArgument, reasons::kRangesOverlap);
  one.client->Submit(word, 0, 4096, 4096);
  CHECK(one.client->Next().code == Code::kOk);
}

TEST_CASE("a withdrawn route refuses with its reason, and its place can be used again") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  const auto route = Rig::Between(from, to);
  const uint64_t word = rig.Install(one.id, 0, route);
  route->Revoke({Code::kPermissionDenied, reasons::kNotOwner, "taken back"});
  one.client->Submit(word, 0, 0, 1);
  ExpectRefusal(one.client->Next(), Code::kPermissionDenied, reasons::kNotOwner);
  rig.Remove(one.id, 0);
  CHECK(route->way == nullptr);  // nothing of the memory is held
  one.client->Submit(word, 0, 0, 1);
  ExpectRefusal(one.client->Next(), Code::kPermissionDenied, reasons::kNotOwner);
  const uint64_t again = rig.Install(one.id, 0, Rig::Between(from, to));
  one.client->Submit(word, 0, 0, 1);  // the name of what was there before
  ExpectRefusal(one.client->Next(), Code::kPermissionDenied, reasons::kNotOwner);
  one.client->Submit(again, 0, 0, 1);
  CHECK(one.client->Next().code == Code::kOk);
}

TEST_CASE("a route, and a ring, go when nothing of them is under way") {
  Rig rig;
  std::atomic<uint64_t> reached{0};
  const Rig::Attached one = rig.Attach();
  auto route = std::make_shared<Route>();
  route->way = std::make_shared<HeldRoute>(reached);
  route->from = route->to = {0, kBuffer};
  const uint64_t word = rig.Install(one.id, 0, route);
  one.client->Submit(word, 0, 0, 1);
  one.client->Submit(word, 0, 0, 1);
  // Both are under way once one more, of a route that is not there, has been refused.
  one.client->Submit(0, 0, 0, 1);
  CHECK(one.client->Next().number == 2);
  route->Revoke({Code::kCancelled, reasons::kCancelled, "removed"});
  std::atomic<bool> removed{false};
  Event gone;
  rig.thread().Remove(one.id, 0, [&] {
    removed = true;
    gone.Set();
  });
  const bool whole_ring = GENERATE(false, true);
  Event ended;
  if (whole_ring) rig.thread().End(one.id, [&] { ended.Set(); });
  ExpectServes(rig);  // while this one waits
  CHECK_FALSE(removed);
  CHECK(route->way != nullptr);
  reached = 2;
  gone.Wait();
  if (whole_ring) ended.Wait();
  CHECK(one.client->Next().code == Code::kOk);
  CHECK(one.client->Next().code == Code::kOk);
  if (whole_ring) CHECK(one.client->end.state() == State::kEnded);
}

TEST_CASE("a route is idle from its last copy's end on, and not before") {
  Rig rig;
  std::atomic<uint64_t> reached{0};
  const RegionRef memory = testing::HostRegion(kBuffer);
  const RegionRef other = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  auto route = Rig::Between(memory, other);
  route->way = std::make_shared<HeldRoute>(reached);
  const auto made = route->idle_since();
  REQUIRE(made.has_value());
  const uint64_t word = rig.Install(one.id, 0, route);
  one.client->Submit(word, 0, 0, 1);
  while (route->idle_since()) std::this_thread::yield();
  reached = 1;
  CHECK(one.client->Next().code == Code::kOk);
  while (!route->idle_since()) std::this_thread::yield();
  CHECK(*route->idle_since() > *made);
}

TEST_CASE("a copy that the hardware fails is told with its reason") {
  Rig rig;
  std::atomic<uint64_t> reached{UINT64_MAX};
  const Rig::Attached one = rig.Attach();
  auto route = std::make_shared<Route>();
  auto way = std::make_shared<HeldRoute>(reached);
  way->fails = true;
  route->way = way;
  route->from = route->to = {0, kBuffer};
  one.client->Submit(rig.Install(one.id, 0, route), 0, 0, 1);
  const Ended ended = one.client->Next();
  CHECK(ended.code == Code::kFailedPrecondition);
  CHECK(std::string(ended.reason) == reasons::kGpuLost);
  CHECK(route->failure().reason() == reasons::kGpuLost);
  CHECK(one.journal->failed() == 1);
}

TEST_CASE("a draining daemon refuses what is submitted") {
  Rig rig;
  const RegionRef memory = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  const uint64_t word = rig.Install(one.id, 0, Rig::Between(memory, memory));
  rig.thread().Drain(true);
  one.client->Submit(word, 0, 4096, 4096);
  ExpectRefusal(one.client->Next(), Code::kUnavailable, reasons::kDraining);
}

TEST_CASE("several threads submit and wait through one ring of a client each") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 3);
  std::vector<Rig::Attached> clients;
  std::vector<uint64_t> words;
  for (uint32_t i = 0; i < 4; ++i) {
    clients.push_back(rig.Attach());
    words.push_back(rig.Install(clients.back().id, i, Rig::Between(from, to)));
  }
  std::vector<std::thread> threads;
  std::atomic<uint64_t> wrong{0};
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const uint64_t share = kBuffer / 4;
      for (uint64_t at = 0; at < share; at += 1024) {
        uint64_t number = 0;
        const uint64_t offset = i * share + at;
        while (!clients[i].client->end.Submit(words[i], offset, offset, 1024, &number)) {
        }
        wrong += clients[i].client->Next().code == Code::kOk ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(testing::FirstWrong({to, 0, kBuffer}, 3) == kBuffer);
}

TEST_CASE("long transfers go by a way of their own, and short ones do not wait for them") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  std::atomic<uint64_t> reached = 0;
  auto route = Rig::Between(from, to);
  route->from = route->to = {0, 2 * kMaxLongBytes};
  auto held = std::make_shared<HeldRoute>(reached);
  const std::weak_ptr<HeldRoute> kept = held;
  route->long_way = std::move(held);
  const uint64_t word = rig.Install(one.id, 0, route);
  const uint64_t first = one.client->Submit(word, 0, 0, kMaxBytes + 1);
  const uint64_t second = one.client->Submit(word, 0, 0, 4096);
  CHECK(one.client->Next().number == second);
  reached = 1;
  const Ended ended = one.client->Next();
  CHECK(ended.number == first);
  CHECK(ended.code == Code::kOk);
  one.client->Submit(word, 0, 0, kMaxLongBytes + 1);
  ExpectRefusal(one.client->Next(), Code::kInvalidArgument, reasons::kBadSize);

  SECTION("of which a client has a bounded number of bytes under way") {
    constexpr uint64_t kHalf = uint64_t{1} << 29;
    reached = 0;
    for (int i = 0; i < 3; ++i) one.client->Submit(word, 0, 0, kHalf);
    const uint64_t last = one.client->Submit(word, 0, 0, 4096);
    const auto taken = [&] { return one.client->shared().taken.load(); };
    while (taken() < last - 1) std::this_thread::yield();
    ExpectServes(rig);  // by the same thread, which has looked at this ring as well
    CHECK(taken() == last - 1);
    reached = 100;
    std::set<uint64_t> numbers;
    for (int i = 0; i < 4; ++i) numbers.insert(one.client->Next().number);
    CHECK(numbers == std::set<uint64_t>{last - 3, last - 2, last - 1, last});
  }
  SECTION("and both are let go with the route") {
    route->Revoke({Code::kNotFound, reasons::kBufferNotFound, "gone"});
    rig.Remove(one.id, 0);
    CHECK(kept.expired());
  }
  reached = 100;
  rig.End(one.id);
}
