// Who has the slots, for how long, and what others see of them.
#include <string.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/sanitized.h"
#include "tests/unit/engine/spy_memory.h"
#include "tests/unit/engine/wild_reader.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kSlot = 64 << 10;
constexpr uint64_t kUntouched = 256 << 20;  // of pages that nobody has touched

struct SlotPair {
  // The timeouts are those for stalling.
  explicit SlotPair(uint32_t slots, uint64_t slot_bytes = kSlot,
                    std::chrono::milliseconds east_timeout = 60s,
                    std::chrono::milliseconds west_timeout = 60s)
      : cluster({"east", "west"},
                [=, this](const std::string& name, NodePlan& plan) {
                  plan.options.slot_bytes = slot_bytes;
                  plan.options.slots = slots;
                  plan.options.stall_timeout = name == "east" ? east_timeout : west_timeout;
                  if (name != "east") return;
                  for (auto& memory : plan.memories) {
                    memory = std::make_unique<SpyMemory>(std::move(memory), allocated);
                  }
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        bob(west.Attach()) {
    cluster.WaitForPeer("east", "west", NodeState::kConnected);
  }
  // The slab of east, once it is made: nothing else of that length is allocated.
  Span Slab(uint32_t slots, uint64_t slot_bytes = kSlot) const {
    for (const RegionRef& region : allocated->all()) {
      if (region->bytes() == slots * slot_bytes) return {region, 0, region->bytes()};
    }
    return {};
  }

  std::shared_ptr<Allocated> allocated = std::make_shared<Allocated>();
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal alice;
  Principal bob;
};

TransferRequest Staged(const std::string& source, const std::string& destination) {
  TransferRequest request = Request(source, destination);
  request.policy.path_glob = "tcp-staged";
  return request;
}

// Where a run of the pattern's first 64 bytes lies anywhere in there.
bool HasPattern(const Span& span, uint64_t seed) {
  std::array<std::byte, 64> wanted;
  Fill(wanted.data(), wanted.size(), seed);
  return ::memmem(span.address(), span.bytes, wanted.data(), wanted.size()) != nullptr;
}

// What the node shows once `good` holds of it.
TransferInfo WaitUntilSeen(EngineNode& node, const Principal& who, const TransferId& id,
                           const std::function<bool(const TransferInfo&)>& good) {
  while (true) {
    auto seen = node.Ask<TransferInfo>(
        [&](ClientApi& api, auto reply) { api.GetTransfer(who, id, std::move(reply)); });
    REQUIRE_OK(seen);
    if (good(*seen)) return *seen;
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("a reader of a few staged bytes sees nothing of what went through the slots before") {
  SlotPair pair(8);
  auto secret = pair.east.Register(pair.alice, "secret", 4 * kSlot);
  REQUIRE_OK(secret);
  for (uint64_t at = 0; at < 4 * kSlot; at += 4096) Fill(secret->data + at, 4096, 9);
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "b", 4 * kSlot));
  auto copied = pair.west.Copy(pair.bob, Staged("east:secret", "west:b"));
  REQUIRE_OK(copied);
  REQUIRE(copied->state == TransferState::kSucceeded);

  const Principal eve = pair.east.Attach(2000);
  auto few = pair.east.Register(eve, "few", kSlot + 4096);
  REQUIRE_OK(few);
  Fill(few->data, kSlot + 4096, 3);
  WildReader reader(pair.cluster, "east", "west");
  REQUIRE_OK(reader.Prepare("east:few", 2000, kSlot));
  std::vector<pipeline::FullMessage> full;
  for (int i = 0; i < 2; ++i) full.push_back(reader.Await<pipeline::FullMessage>());
  const RegionRef sink = HostRegion(8 * kSlot);
  for (const pipeline::FullMessage& one : full) {
    CAPTURE(one.index, one.offset, one.bytes);
    CHECK(reader.Get(one.key, 0, {sink, one.offset, one.bytes}).ok());
    CHECK(FirstWrong({sink, one.offset, one.bytes}, 3, one.offset) == one.bytes);
    // Not one byte more than was filled, of this slot or of any other.
    for (uint64_t at = 0; at < 8 * kSlot; at += 4096) {
      if (at + 4096 <= one.bytes) continue;
      CHECK(reader.Get(one.key, at, {sink, at, 4096}).reason() == reasons::kAccessDenied);
    }
    CHECK(reader.Get(one.key, one.bytes - 1, {sink, 0, 2}).reason() == reasons::kAccessDenied);
  }
  CHECK_FALSE(HasPattern({sink, 0, 8 * kSlot}, 9));
  // Nor what it has said that it has read.
  reader.Say(pipeline::FreeMessage{full[0].index});
  REQUIRE_OK(reader.Finish());
  CHECK(reader.Get(full[0].key, 0, {sink, 0, 1}).reason() == reasons::kAccessDenied);
  CHECK(reader.Get(full[1].key, 0, {sink, 0, 1}).reason() == reasons::kAccessDenied);
}

TEST_CASE("a slot is cleared before it serves another owner, and as far as it was filled") {
  SlotPair pair(2);  // one for sending
  auto secret = pair.east.Register(pair.alice, "secret", kSlot);
  REQUIRE_OK(secret);
  Fill(secret->data, kSlot, 9);
  const Principal eve = pair.east.Attach(2000);
  const Principal eve_there = pair.west.Attach(2000);
  auto few = pair.east.Register(eve, "few", 4096);
  REQUIRE_OK(few);
  Fill(few->data, 4096, 3);
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "b", kSlot));
  REQUIRE_OK(pair.west.CreateBuffer(eve_there, "c", 4096));
  auto copied = pair.west.Copy(pair.bob, Staged("east:secret", "west:b"));
  REQUIRE_OK(copied);
  REQUIRE(copied->state == TransferState::kSucceeded);
  const Span slab = pair.Slab(2);
  REQUIRE(slab.region != nullptr);
  CHECK(FirstWrong({slab.region, 0, kSlot}, 9) == kSlot);

  copied = pair.west.Copy(eve_there, Staged("east:few", "west:c"));
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  CHECK(FirstWrong({slab.region, 0, 4096}, 3) == 4096);
  CHECK(std::all_of(slab.address() + 4096, slab.address() + kSlot,
                    [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("a short transfer does not wait for the end of a long one that came first") {
  constexpr uint64_t kLong = kUntouched / (kAddressSanitizer ? 4 : 1);
  SlotPair pair(8, 4096);
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "long", kLong));
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "sink", kLong));
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "short", 4096));
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "cup", 4096));
  auto lasting = pair.west.Start(pair.bob, Staged("east:long", "west:sink"));
  REQUIRE_OK(lasting);
  pair.west.Wait(pair.bob, lasting->id, TransferState::kRunning);
  auto quick = pair.west.Copy(pair.bob, Staged("east:short", "west:cup"));
  REQUIRE_OK(quick);
  INFO(quick->error.ToString());
  CHECK(quick->state == TransferState::kSucceeded);
  auto still = pair.west.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.GetTransfer(pair.bob, lasting->id, std::move(reply));
  });
  REQUIRE_OK(still);
  CHECK(still->state == TransferState::kRunning);
  CHECK(pair.west.Wait(pair.bob, lasting->id).state == TransferState::kSucceeded);
}

TEST_CASE("what waits for slots is cancelled, ends at its deadline, and counts as stalled") {
  const std::string how = GENERATE("cancel", "deadline", "stall");
  CAPTURE(how);
  SlotPair pair(2, kSlot, 60s, how == "stall" ? 500ms : 60s);
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "a", 4 * kSlot));
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "held", 4 * kSlot));
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "b", 4 * kSlot));
  // Takes the one slot for sending, and never says that it has read it.
  WildReader reader(pair.cluster, "east", "west");
  REQUIRE_OK(reader.Prepare("east:held", 1000, kSlot));
  reader.Await<pipeline::FullMessage>();

  TransferRequest request = Staged("east:a", "west:b");
  if (how == "deadline") request.deadline = 300ms;
  auto waiting = pair.east.Start(pair.alice, request);
  REQUIRE_OK(waiting);
  // It says what it waits for, at both ends.
  for (EngineNode* node : {&pair.west, &pair.east}) {
    const Principal& who = node == &pair.west ? pair.bob : pair.alice;
    const auto seen = WaitUntilSeen(*node, who, waiting->id, [](const TransferInfo& info) {
      return IsFinal(info.state) || info.waits_for.starts_with("staging slots of node east");
    });
    CHECK((how != "cancel" || !IsFinal(seen.state)));
  }
  if (how == "cancel") {
    auto cancelled = pair.east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.CancelTransfer(pair.alice, waiting->id, std::move(reply));
    });
    REQUIRE_OK(cancelled);
  }
  const std::string_view reason = how == "cancel"     ? reasons::kCancelled
                                  : how == "deadline" ? reasons::kDeadline
                                                      : reasons::kStalled;
  for (EngineNode* node : {&pair.west, &pair.east}) {
    const TransferInfo ended = node->Wait(node == &pair.west ? pair.bob : pair.alice, waiting->id,
                                          TransferState::kUnconfirmed);
    INFO(node->name() << ": " << ended.error.ToString());
    CHECK(ended.waits_for.empty());
    CHECK(IsFinal(ended.state));
    CHECK(ended.error.reason() == reason);
  }
}

TEST_CASE("slots of a reader that is gone are free at once") {
  SlotPair pair(2);
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "a", 4 * kSlot));
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "held", 4 * kSlot));
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "b", 4 * kSlot));
  WildReader reader(pair.cluster, "east", "west");
  REQUIRE_OK(reader.Prepare("east:held", 1000, kSlot));
  reader.Await<pipeline::FullMessage>();
  auto waiting = pair.west.Start(pair.bob, Staged("east:a", "west:b"));
  REQUIRE_OK(waiting);
  WaitUntilSeen(pair.west, pair.bob, waiting->id,
                [](const TransferInfo& info) { return !info.waits_for.empty(); });
  reader.connection().Close({Code::kUnavailable, reasons::kLinkDown, "as when it dies"});
  const TransferInfo ended = pair.west.Wait(pair.bob, waiting->id);
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kSucceeded);
}

TEST_CASE("a reader that does not read loses its slots after the stall timeout, if others wait") {
  SlotPair pair(2, kSlot, 500ms);
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "a", 4 * kSlot));
  REQUIRE_OK(pair.east.CreateBuffer(pair.alice, "held", 4 * kSlot));
  REQUIRE_OK(pair.west.CreateBuffer(pair.bob, "b", 4 * kSlot));
  WildReader reader(pair.cluster, "east", "west");
  REQUIRE_OK(reader.Prepare("east:held", 1000, kSlot));
  reader.Await<pipeline::FullMessage>();
  auto copied = pair.west.Copy(pair.bob, Staged("east:a", "west:b"));
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  CHECK(copied->state == TransferState::kSucceeded);
  const auto failed = reader.Await<pipeline::FailedMessage>();
  CHECK(failed.status.reason() == reasons::kStalled);
}

TEST_CASE("a thousand transfers over eight slots all arrive") {
  constexpr int kTransfers = 1000;
  constexpr uint64_t kBytes = 2 * 4096 + 100;  // three chunks
  SlotPair pair(16, 4096);
  auto out = pair.east.Register(pair.alice, "out", kTransfers * kBytes);
  auto in = pair.west.Register(pair.bob, "in", kTransfers * kBytes);
  REQUIRE_OK(out);
  REQUIRE_OK(in);
  Fill(out->data, kTransfers * kBytes, 5);
  std::vector<TransferId> ids;
  for (int i = 0; i < kTransfers; ++i) {
    const std::string range = "@" + std::to_string(i * kBytes) + "+" + std::to_string(kBytes);
    auto started = pair.west.Start(pair.bob, Staged("east:out" + range, "west:in" + range));
    REQUIRE_OK(started);
    ids.push_back(started->id);
  }
  for (const TransferId& id : ids) {
    const TransferInfo ended = pair.west.Wait(pair.bob, id);
    INFO(ended.error.ToString());
    REQUIRE(ended.state == TransferState::kSucceeded);
  }
  CHECK(std::equal(out->data, out->data + kTransfers * kBytes, in->data));
}

TEST_CASE("nodes that send to each other through one slot each way never wait for one another") {
  constexpr int kTransfers = 40;
  constexpr uint64_t kBytes = 20 * 4096 + 1;
  SlotPair pair(2, 4096);
  struct Side {
    EngineNode* node;
    const Principal* who;
    EngineNode::Registered out;
    EngineNode::Registered in;
  };
  std::vector<Side> sides;
  for (EngineNode* node : {&pair.east, &pair.west}) {
    const Principal& who = node == &pair.east ? pair.alice : pair.bob;
    auto out = node->Register(who, "out", kTransfers * kBytes);
    auto in = node->Register(who, "in", kTransfers * kBytes);
    REQUIRE_OK(out);
    REQUIRE_OK(in);
    Fill(out->data, kTransfers * kBytes, sides.size());
    sides.push_back({node, &who, std::move(*out), std::move(*in)});
  }
  std::vector<std::pair<size_t, TransferId>> started;
  for (int i = 0; i < kTransfers; ++i) {
    const std::string range = "@" + std::to_string(i * kBytes) + "+" + std::to_string(kBytes);
    for (size_t to = 0; to < 2; ++to) {
      TransferRequest request = Staged(sides[1 - to].node->name() + ":out" + range,
                                       sides[to].node->name() + ":in" + range);
      auto one = sides[to].node->Start(*sides[to].who, request);
      REQUIRE_OK(one);
      started.emplace_back(to, one->id);
    }
  }
  for (const auto& [to, id] : started) {
    const TransferInfo ended = sides[to].node->Wait(*sides[to].who, id);
    INFO(ended.error.ToString());
    REQUIRE(ended.state == TransferState::kSucceeded);
  }
  for (size_t to = 0; to < 2; ++to) {
    const std::byte* sent = sides[1 - to].out.data;
    CHECK(std::equal(sent, sent + kTransfers * kBytes, sides[to].in.data));
  }
}

TEST_CASE("a message that is longer than a link takes goes in parts, and comes together again") {
  for (const size_t bytes : {0, 1000, 1003, 1004, 3000, 60'000}) {
    CAPTURE(bytes);
    const pipeline::FullMessage full{7, 1 << 20, 4096, std::string(bytes, 'k')};
    pipeline::Joiner joiner;
    std::string whole;
    size_t joined = 0;
    for (const std::string& part : pipeline::Split(pipeline::Encode(full))) {
      CHECK(part.size() <= Connection::kMaxMessageBytes);
      const auto added = joiner.Add(std::as_bytes(std::span(part)), &whole);
      REQUIRE(added);
      joined += *added ? 1 : 0;
    }
    REQUIRE(joined == 1);
    const auto decoded = pipeline::Decode(std::as_bytes(std::span(whole)));
    REQUIRE(decoded);
    CHECK(std::get<pipeline::FullMessage>(*decoded).key == full.key);
  }
  // Without an end, there is one to what is kept.
  pipeline::Joiner joiner;
  std::string whole;
  const std::string part = '\x10' + std::string(1000, 'k');
  size_t added = 0;
  while (joiner.Add(std::as_bytes(std::span(part)), &whole)) ++added;
  CHECK(added < 100);
}
