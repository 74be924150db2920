// Copies that the thread makes for others than its clients.
#include <atomic>
#include <future>

#include "onecopy/reasons.h"
#include "tests/unit/ring/thread_rig.h"

using namespace onecopy;
using namespace onecopy::ring;

namespace {

constexpr uint64_t kLong = kMaxBytes + 1;

// Copies that end when the test lets them.
class HeldCopies final : public SmallCopyRoute {
 public:
  explicit HeldCopies(std::atomic<uint64_t>& reached) : reached_(reached) {}
  Status Begin(uint64_t, uint64_t, uint64_t) override { return ++begun_, OkStatus(); }
  uint64_t Mark() override { return begun_; }
  bool Reached(uint64_t mark, Status*) override { return mark <= reached_; }
  std::shared_ptr<const SmallSteps> steps() const override { return nullptr; }

 private:
  std::atomic<uint64_t>& reached_;
  uint64_t begun_ = 0;
};

// What became of one.
struct Asked {
  std::promise<ErrandEnd> end;
  Errand Copy(uint64_t from, uint64_t to, uint64_t bytes) {
    return {from, to, bytes, [this](const ErrandEnd& ended) { end.set_value(ended); }};
  }
  ErrandEnd Get() { return end.get_future().get(); }
};

template <typename... E>
std::vector<Errand> Batch(E... errands) {
  std::vector<Errand> all;
  (all.push_back(std::move(errands)), ...);
  return all;
}

}  // namespace

TEST_CASE("errands are copied beside a client's submissions, and each is told its own end") {
  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  testing::Fill({from, 0, kBuffer}, 3);
  const auto way = std::make_shared<host::HostSmallCopyRoute>("east", from, to);
  Asked good[3];
  Asked bad;
  rig.thread().Copy(way, Batch(good[0].Copy(0, 100, 50), bad.Copy(kBuffer - 1, 0, 2),
                               good[1].Copy(kBuffer - 8, 200, 8)));
  rig.thread().Copy(way, Batch(good[2].Copy(1, kBuffer - 1, 1)));
  for (Asked& one : good) {
    const ErrandEnd end = one.Get();
    CHECK(end.status.ok());
    CHECK(end.begun <= end.ended);
  }
  CHECK(bad.Get().status.reason() == reasons::kRangeOutOfBuffer);
  CHECK(testing::FirstWrong({to, 100, 50}, 3, 0) == 50);
  CHECK(testing::FirstWrong({to, 200, 8}, 3, kBuffer - 8) == 8);
  CHECK(testing::FirstWrong({to, kBuffer - 1, 1}, 3, 1) == 1);
  ExpectServes(rig);
}

TEST_CASE("a long errand is alone where nothing long ran beside it") {
  Rig rig;
  std::atomic<uint64_t> one_reached{0};
  std::atomic<uint64_t> two_reached{0};
  const auto one = std::make_shared<HeldCopies>(one_reached);
  const auto two = std::make_shared<HeldCopies>(two_reached);
  Asked asked[3];
  Asked small;
  rig.thread().Copy(one, Batch(asked[0].Copy(0, 0, kLong)));
  rig.thread().Copy(two, Batch(small.Copy(0, 0, 8)));
  two_reached = 1;
  CHECK(small.Get().status.ok());
  one_reached = 1;
  CHECK(asked[0].Get().alone);
  rig.thread().Copy(one, Batch(asked[1].Copy(0, 0, kLong)));
  rig.thread().Copy(two, Batch(asked[2].Copy(0, 0, kLong)));
  two_reached = 2;
  CHECK_FALSE(asked[2].Get().alone);
  one_reached = 2;
  CHECK_FALSE(asked[1].Get().alone);
}

TEST_CASE("a thread that stops finishes its errands first") {
  std::atomic<uint64_t> reached{0};
  Asked asked;
  std::thread release;
  {
    Rig rig;
    rig.thread().Copy(std::make_shared<HeldCopies>(reached), Batch(asked.Copy(0, 0, 8)));
    release = std::thread([&] { reached = 1; });
    rig.thread().Stop();
  }
  release.join();
  CHECK(asked.Get().status.ok());
}
