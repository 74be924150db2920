// Long transfers by rings, which hardware copies: what they make is kept and compared as that of
// others.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/engine/ring_of.h"
#include "tests/unit/engine/spy_memory.h"
#include "tests/unit/log/captured.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kLongBytes = uint64_t{16} << 20;

// How many copies may end so far.
using Released = std::shared_ptr<std::atomic<uint64_t>>;

// As a copy engine's: whoever asks does not wait for it, and the test says when it has ended.
class EngineRoute final : public SmallCopyRoute {
 public:
  EngineRoute(RegionRef from, RegionRef to, Released released)
      : from_(std::move(from)), to_(std::move(to)), released_(std::move(released)) {}

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override {
    std::memcpy(static_cast<std::byte*>(to_->address()) + to_offset,
                static_cast<const std::byte*>(from_->address()) + from_offset, bytes);
    ++begun_;
    return OkStatus();
  }
  uint64_t Mark() override { return begun_; }
  bool Reached(uint64_t mark, Status*) override { return mark <= *released_; }
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  const RegionRef from_;
  const RegionRef to_;
  const Released released_;
  uint64_t begun_ = 0;
  const std::shared_ptr<const SmallSteps> steps_ =
      std::make_shared<SmallSteps>(std::make_shared<const std::vector<Step>>());
};

class EngineMemory final : public SpyMemory {
 public:
  EngineMemory(std::unique_ptr<Memory> memory, Released released)
      : SpyMemory(std::move(memory), std::make_shared<Allocated>()),
        released_(std::move(released)) {}

  Result<std::unique_ptr<SmallCopyRoute>> PrepareLong(const RegionRef& from,
                                                      const RegionRef& to) override {
    return std::unique_ptr<SmallCopyRoute>(std::make_unique<EngineRoute>(from, to, released_));
  }

 private:
  const Released released_;
};

// One node with two long buffers, and a ring of their owner.
struct LongRing {
  Released released = std::make_shared<std::atomic<uint64_t>>(0);
  EngineCluster cluster{{"east"}, [this](const std::string&, NodePlan& plan) {
                          for (std::unique_ptr<Memory>& memory : plan.memories) {
                            if (memory->kind() != "host") continue;
                            memory = std::make_unique<EngineMemory>(std::move(memory), released);
                          }
                        }};
  EngineNode& east = cluster["east"];
  Principal alice = east.Attach();
  std::unique_ptr<RingOf> ring;
  uint64_t word = 0;

  LongRing() {
    for (const char* name : {"a", "b", "c"})
      REQUIRE_OK(east.CreateBuffer(alice, name, 2 * kLongBytes));
    ring = std::make_unique<RingOf>(east, alice);
    const auto route = ring->OpenRoute("a", "b");
    REQUIRE_OK(route);
    REQUIRE(route->max_bytes >= kLongBytes);
    word = route->word;
  }

  uint64_t Submit() {
    uint64_t number = 0;
    REQUIRE(ring->end().Submit(word, 0, 0, kLongBytes, &number));
    return number;
  }
  // Once it has ended.
  TransferInfo Reap(uint64_t number) {
    ring::Ended ended;
    while (!ring->end().Reap(&ended)) ring->end().Sleep(std::chrono::seconds(1));
    CHECK(ended.code == Code::kOk);
    const auto done = east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.GetTransfer(alice, ring->IdOf(number), std::move(reply));
    });
    REQUIRE_OK(done);
    return *done;
  }
  TransferInfo Move() {
    ++*released;
    return Reap(Submit());
  }
  NodeInfo Node() {
    const auto node = east.Ask<NodeInfo>(
        [&](ClientApi& api, auto reply) { api.GetNode(alice, "east", std::move(reply)); });
    REQUIRE_OK(node);
    return *node;
  }
  // However slow the machine is, a transfer that lasts as long is slower than that one.
  static void Outlast(double seconds) {
    const auto until = os::Clock::now() + std::chrono::duration<double>(3 * seconds);
    while (os::Clock::now() < until) std::this_thread::yield();
  }
};

}  // namespace

TEST_CASE("a long transfer by a ring leaves its rate, and says when it was far slower than usual") {
  LongRing rig;
  double longest = 0;
  for (int i = 0; i < 3; ++i) {
    const TransferInfo done = rig.Move();
    CHECK(done.receipt.evidence.at("submitted") == "ring");
    CHECK_FALSE(done.receipt.evidence.contains("alarm"));
    longest = std::max(longest, done.receipt.seconds);
  }
  const NodeInfo before = rig.Node();
  REQUIRE(before.path_rates.size() == 1);
  CHECK(before.path_rates[0].path == "local");
  CHECK(before.path_rates[0].transfers == 3);
  CHECK(before.path_rates[0].source_memory == "host");
  CHECK(before.path_rates[0].destination_memory == "host");

  const uint64_t number = rig.Submit();
  LongRing::Outlast(longest);
  ++*rig.released;
  const TransferInfo slow = rig.Reap(number);
  REQUIRE(slow.receipt.evidence.contains("alarm"));
  INFO(slow.receipt.evidence.at("alarm"));
  CHECK(slow.receipt.evidence.at("alarm").starts_with("far slower than measured before"));
  CHECK(rig.Node().slow_transfers == before.slow_transfers + 1);
}

TEST_CASE("long transfers by a ring that run beside each other tell nothing about their path") {
  LongRing rig;
  const uint64_t one = rig.Submit();
  const uint64_t other = rig.Submit();
  *rig.released += 2;
  rig.Reap(one);
  rig.Reap(other);
  CHECK(rig.Node().path_rates.empty());
  rig.Move();
  CHECK(rig.Node().path_rates.size() == 1);
}

TEST_CASE("nor does one beside which the node moved something else") {
  LongRing rig;
  const uint64_t number = rig.Submit();
  REQUIRE_OK(rig.east.Copy(rig.alice, Request("c@0+1", "a@0+1")));
  ++*rig.released;
  rig.Reap(number);
  CHECK(rig.Node().path_rates.empty());
}

TEST_CASE(
    "of very many long transfers by a ring the log has some lines, and the number of others") {
  constexpr size_t kMany = 300;
  const Captured captured;
  {
    const auto begin = std::chrono::steady_clock::now();
    LongRing rig;
    REQUIRE_OK(log::SetLevel("info"));
    for (size_t i = 0; i < kMany; ++i) rig.Move();
    rig.ring.reset();
    rig.east.Detach(rig.alice);
    size_t lines = 0;
    size_t told = 0;  // these, and those that the log says it has left out
    const auto count = [&] {
      lines = told = 0;
      for (const std::string& line : captured.Lines()) {
        lines += line.find("transfer ended") != std::string::npos ? 1 : 0;
        const size_t at = line.find(" succeeded=");
        if (at != std::string::npos) told += std::stoull(line.substr(at + 11));
      }
      told += lines;
    };
    // Whatever came too fast is told when the ring has ended.
    do {
      std::this_thread::yield();
      count();
    } while (told < kMany);
    CHECK(lines >= 100);
    // However long it took: so many in each second that began meanwhile.
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
    CHECK(lines <= 100 * (static_cast<size_t>(seconds.count()) + 1));
    CHECK(told == kMany);
  }
}
