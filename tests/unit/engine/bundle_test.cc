// Transfers of several buffers at each end.
#include <algorithm>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBundleBytes = 400'000;
constexpr size_t kBundleSources = 3;

using Buffers = std::vector<EngineNode::Registered>;

Buffers RegisterAll(EngineNode& node, const Principal& who, const std::string& prefix,
                    size_t count) {
  Buffers buffers;
  for (size_t i = 0; i < count; ++i) {
    auto made = node.Register(who, prefix + std::to_string(i), kBundleBytes);
    REQUIRE_OK(made);
    Fill(*made, i + 1);
    buffers.push_back(*made);
  }
  return buffers;
}

// From a0, a1, a2 to b0, b1: every source goes to both, in blocks of another order.
TransferRequest ThreeToTwo(const std::string& from = {}, const std::string& to = {}) {
  TransferRequest request = Request(from + "a0", to + "b0@5");
  request.more_sources = {{{}, "a1"}, {{}, "a2", 100}};
  request.more_destinations = {{{}, "b1"}};
  for (uint32_t i = 0; i < 300; ++i) {
    RangePair pair{{i * 1100, 1000}, {(299 - i) * 1300, 1000}, i % 3, i % 2};
    if (i % 7 == 0) {  // strided at one end
      pair.source = {i * 1100, 10, 11, 100};
    }
    request.ranges.push_back(pair);
  }
  return request;
}

uint64_t OffsetOf(const TransferRequest& request, bool source, uint32_t buffer) {
  const auto& first = source ? request.source : request.destination;
  const auto& more = source ? request.more_sources : request.more_destinations;
  return (buffer == 0 ? first : more[buffer - 1]).offset_bytes.value_or(0);
}

// What the destinations must hold afterwards.
std::vector<std::vector<std::byte>> Played(const TransferRequest& request, const Buffers& sources,
                                           const Buffers& sinks) {
  std::vector<std::vector<std::byte>> after;
  for (const auto& sink : sinks) after.emplace_back(sink.data, sink.data + sink.info.bytes);
  for (const RangePair& pair : request.ranges) {
    const std::byte* const from =
        sources[pair.source_buffer].data + OffsetOf(request, true, pair.source_buffer);
    std::byte* const to =
        after[pair.destination_buffer].data() + OffsetOf(request, false, pair.destination_buffer);
    const auto& [source, destination, source_buffer, destination_buffer] = pair;
    for (uint64_t k = 0; k < source.bytes * source.count; ++k) {
      to[destination.offset + k / destination.bytes * destination.stride + k % destination.bytes] =
          from[source.offset + k / source.bytes * source.stride + k % source.bytes];
    }
  }
  return after;
}

void CheckHolds(const Buffers& sinks, const std::vector<std::vector<std::byte>>& expected) {
  for (size_t i = 0; i < sinks.size(); ++i) {
    CAPTURE(i);
    CHECK(std::equal(expected[i].begin(), expected[i].end(), sinks[i].data));
  }
}

std::vector<TransferInfo> ListOf(EngineNode& node, const Principal& who) {
  auto page = node.Ask<Page<TransferInfo>>(
      [&](ClientApi& api, auto reply) { api.ListTransfers(who, {}, std::move(reply)); });
  REQUIRE_OK(page);
  return page->items;
}

Status DeleteBuffer(EngineNode& node, const Principal& who, const std::string& name, bool force) {
  return node
      .Ask<bool>([&](ClientApi& api, auto reply) {
        api.DeleteBuffer(who, "", name, force,
                         [reply = std::move(reply)](const Status& status) mutable {
                           if (status.ok()) return reply(true);
                           reply(status);
                         });
      })
      .status();
}

void CheckBundle(const TransferInfo& done, const TransferRequest& request, size_t copies) {
  INFO(done.error.ToString());
  REQUIRE(done.state == TransferState::kSucceeded);
  CHECK(done.bytes == 300'000);
  CHECK(done.bytes_done == 300'000);
  CHECK(done.source_buffers == 3);
  CHECK(done.destination_buffers == 2);
  CHECK(done.parts == 6);
  const Receipt& receipt = done.receipt;
  CHECK(receipt.path == request.policy.path_glob);
  CHECK(receipt.ranges == 300);
  CHECK(receipt.merged_ranges == 300);
  REQUIRE(receipt.steps.size() == copies);
  for (const ExecutedStep& step : receipt.steps) CHECK(step.bytes == 300'000);
  REQUIRE(receipt.checksum);
  CHECK(receipt.checksum->verified);
  CHECK(receipt.checksum->algorithm == "xxh3-128 of xxh3-128-tree");
  CHECK(receipt.checksum->value.size() == 32);
}

}  // namespace

TEST_CASE("ranges of several buffers are one transfer inside a node") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  const Buffers sources = RegisterAll(east, alice, "a", kBundleSources);
  const Buffers sinks = RegisterAll(east, alice, "b", 2);
  const auto [path, copies] =
      GENERATE(table<std::string, size_t>({{"local", 1}, {"peer-bounce", 2}}));
  TransferRequest request = ThreeToTwo();
  request.policy.path_glob = path;
  request.checksum = true;
  const auto expected = Played(request, sources, sinks);
  auto done = east.Copy(alice, request);
  REQUIRE_OK(done);
  CheckBundle(*done, request, copies);
  CheckHolds(sinks, expected);
  const std::vector<TransferInfo> listed = ListOf(east, alice);
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].id == done->id);
  CHECK(DeleteBuffer(east, alice, "a1", false).ok());
  CHECK(DeleteBuffer(east, alice, "b1", false).ok());
}

TEST_CASE("ranges of several buffers are one transfer between nodes, whoever asks") {
  EngineCluster cluster({"east", "west", "north"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const Buffers sources = RegisterAll(cluster["east"], alice, "a", kBundleSources);
  const Buffers sinks = RegisterAll(cluster["west"], bob, "b", 2);
  const auto [path, copies] = GENERATE(
      table<std::string, size_t>({{"tcp-direct", 3}, {"tcp-bounce", 4}, {"tcp-staged", 5}}));
  const std::string asked = GENERATE("west", "east", "north");
  CAPTURE(path, asked);
  EngineNode& node = cluster[asked];
  const Principal carol = asked == "east" ? alice : asked == "west" ? bob : node.Attach();
  TransferRequest request = ThreeToTwo("east:", "west:");
  request.policy.path_glob = path;
  request.checksum = true;
  const auto expected = Played(request, sources, sinks);
  auto done = node.Copy(carol, request);
  REQUIRE_OK(done);
  CheckBundle(*done, request, copies);
  CheckHolds(sinks, expected);
  // Each node that has a part in it knows one transfer, and how it ended.
  for (const auto& [name, who] :
       {std::pair<std::string, Principal>{"east", alice}, {"west", bob}, {asked, carol}}) {
    CAPTURE(name);
    const TransferInfo seen = cluster[name].Wait(who, done->id);
    CHECK(seen.state == TransferState::kSucceeded);
    CHECK(seen.bytes == 300'000);
    const std::vector<TransferInfo> listed = ListOf(cluster[name], who);
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].id == done->id);
    CHECK(listed[0].source_buffers == 3);
  }
  CHECK(DeleteBuffer(cluster["east"], alice, "a1", false).ok());
  CHECK(DeleteBuffer(cluster["west"], bob, "b1", false).ok());
}

TEST_CASE("a request whose ranges are of one pair of buffers is a transfer between these") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  const Buffers sources = RegisterAll(east, alice, "a", 2);
  const Buffers sinks = RegisterAll(east, alice, "b", 2);
  TransferRequest request = Request("a0", "b0");
  request.more_sources = {{{}, "a1"}};
  request.more_destinations = {{{}, "b1"}};
  request.ranges = {{{0, 100}, {50, 100}, 1, 1}, {{100, 100}, {200, 100}, 1, 1}};
  const auto expected = Played(request, sources, sinks);
  auto done = east.Copy(alice, request);
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(done->source.buffer == "a1");
  CHECK(done->destination.buffer == "b1");
  CHECK(done->source_buffers == 1);
  CHECK(done->parts == 0);
  CheckHolds(sinks, expected);
}

TEST_CASE("several buffers of which one cannot be moved: nothing moves, and it is said which") {
  EngineCluster cluster({"east", "west"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  const Principal bob = cluster["west"].Attach();
  const Buffers sources = RegisterAll(east, alice, "a", kBundleSources);
  RegisterAll(cluster["west"], bob, "b", 2);
  const Buffers sinks = RegisterAll(east, alice, "b", 2);
  REQUIRE_OK(east.Register(east.Attach(1001), "theirs", kBundleBytes));
  const auto before = Played({}, sources, sinks);
  const std::string to = GENERATE("", "west:");
  const Principal& who = alice;
  const auto refused = [&](const std::function<void(TransferRequest&)>& change) {
    TransferRequest request = ThreeToTwo("", to);
    change(request);
    return east.Start(who, request).status();
  };
  using R = TransferRequest;
  CHECK(refused([](R& r) { r.ranges[70].source_buffer = 3; }).message().find("source range 70 ") !=
        std::string::npos);
  CHECK(refused([](R& r) { r.ranges[70].destination_buffer = 2; }).reason() ==
        reasons::kBadArgument);
  CHECK(refused([](R& r) { r.ranges[71].source.bytes = 999; }).message().find("range 71 ") !=
        std::string::npos);
  CHECK(refused([](R& r) { r.ranges[5].source.bytes = 0; }).reason() == reasons::kBadSize);
  CHECK(refused([](R& r) { r.ranges.clear(); }).reason() == reasons::kBadEndpoint);
  CHECK(refused([](R& r) { r.more_sources[0].node = "north"; }).reason() == reasons::kBadEndpoint);
  CHECK(refused([](R& r) { r.more_destinations[0].buffer = ""; }).reason() ==
        reasons::kBadEndpoint);
  CHECK(refused([](R& r) { r.more_sources[0].file = "/etc/hosts"; }).reason() ==
        reasons::kBadEndpoint);
  CHECK(refused([](R& r) { r.part_of = TransferId("series"); }).reason() == reasons::kBadArgument);
  // Two source buffers into one place.
  CHECK(refused([](R& r) { r.ranges[2].destination = r.ranges[0].destination; }).reason() ==
        reasons::kRangesOverlap);
  // One destination under two names, with bytes in common.
  CHECK(refused([](R& r) {
          r.more_destinations[0] = {{}, "b0", 600};
        }).reason() == reasons::kRangesOverlap);
  CHECK(refused([](R& r) { r.more_sources[1].buffer = "nobody"; }).reason() ==
        reasons::kBufferNotFound);
  CHECK(refused([](R& r) { r.more_sources[1].buffer = "theirs"; }).reason() ==
        reasons::kBufferNotFound);
  CHECK(refused([](R& r) { r.more_destinations[0].buffer = "nobody"; }).reason() ==
        reasons::kBufferNotFound);
  CHECK(refused([](R& r) { r.more_sources[1].offset_bytes = 399'000; }).reason() ==
        reasons::kRangeOutOfBuffer);
  CHECK(refused([](R& r) { r.more_destinations[0].offset_bytes = 399'000; }).reason() ==
        reasons::kRangeOutOfBuffer);
  CHECK(refused([](R& r) { r.policy.path_glob = "rdma-*"; }).reason() == reasons::kPolicyUnmet);
  if (to.empty()) {
    // One part reads what another one writes.
    CHECK(refused([](R& r) { r.more_sources[0].buffer = "b0"; }).reason() ==
          reasons::kRangesOverlap);
  }
  CHECK(ListOf(east, alice).empty());
  CheckHolds(sinks, before);
}

TEST_CASE("what it takes to tell parts inside buffers apart is bounded for all of them together") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  constexpr uint32_t kSeveral = 6;
  RegisterAll(east, alice, "a", kSeveral);
  // Every other byte of a buffer goes to the one beside it, by columns of four strides: quick
  // enough of one buffer.
  const auto asked = [](uint32_t buffers) {
    TransferRequest request = Request("a0", "a0");
    for (uint32_t i = 0; i < buffers; ++i) {
      if (i > 0) request.more_sources.push_back({{}, "a" + std::to_string(i)});
      if (i > 0) request.more_destinations.push_back({{}, "a" + std::to_string(i)});
      for (uint64_t k = 0; k < 400; ++k) {
        const uint64_t rows = k / 100 + 1;
        request.ranges.push_back(
            {{k * 2, 1, 800 * rows, 200 / rows}, {k * 2 + 1, 1, 800 * rows, 200 / rows}, i, i});
      }
    }
    return request;
  };
  CHECK(east.Copy(alice, asked(1)).ok());
  const Status refused = east.Copy(alice, asked(kSeveral)).status();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == reasons::kQuota);
}

TEST_CASE("a destination that no range names is not looked at") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  const Buffers sources = RegisterAll(east, alice, "a", kBundleSources);
  const Buffers sinks = RegisterAll(east, alice, "b", 2);
  REQUIRE_OK(east.Register(east.Attach(1001), "theirs", kBundleBytes));
  TransferRequest request = ThreeToTwo();
  for (RangePair& pair : request.ranges) pair.destination_buffer += 1;
  request.more_destinations = {{{}, "b0"}, {{}, "b1"}};
  request.destination.offset_bytes.reset();
  request.destination.buffer = GENERATE("theirs", "nobody");
  CAPTURE(request.destination.buffer);
  const auto expected =
      Played(request, {sources[0], sources[1], sources[2]}, {sinks[0], sinks[0], sinks[1]});
  auto done = east.Copy(alice, request);
  REQUIRE_OK(done);
  INFO(done->error.ToString());
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(std::equal(expected[1].begin(), expected[1].end(), sinks[0].data));
  CHECK(std::equal(expected[2].begin(), expected[2].end(), sinks[1].data));
}

TEST_CASE("several buffers are planned and explained as one") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  RegisterAll(cluster["east"], alice, "a", kBundleSources);
  RegisterAll(cluster["west"], bob, "b", 2);
  TransferRequest request = ThreeToTwo("east:", "west:");
  request.validate_only = true;
  request.policy.at_most_copies = 4;
  auto planned = cluster["west"].Start(bob, request);
  REQUIRE_OK(planned);
  CHECK(planned->id.empty());
  CHECK(planned->bytes == 300'000);
  CHECK(planned->plan->copies() <= 4);
  CHECK(ListOf(cluster["west"], bob).empty());
}

TEST_CASE("a request of several buffers that is repeated starts nothing") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  RegisterAll(cluster["east"], alice, "a", kBundleSources);
  RegisterAll(cluster["east"], alice, "b", 2);
  TransferRequest request = ThreeToTwo();
  request.request_id = "one";
  auto first = cluster["east"].Copy(alice, request);
  auto again = cluster["east"].Start(alice, request);
  REQUIRE_OK(first);
  REQUIRE_OK(again);
  CHECK(first->id == again->id);
  request.ranges[0].source_buffer = 1;
  CHECK(cluster["east"].Start(alice, request).status().reason() == reasons::kRequestIdReused);
}

TEST_CASE("more parts than move at once are all moved, and kept track of") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  constexpr size_t kMany = 40;
  const Buffers sources = RegisterAll(cluster["east"], alice, "a", kMany);
  const Buffers sinks = RegisterAll(cluster["west"], bob, "b", kMany);
  TransferRequest request = Request("east:a0", "west:b0");
  for (uint32_t i = 0; i < kMany; ++i) {
    if (i > 0) request.more_sources.push_back({{}, "a" + std::to_string(i)});
    if (i > 0) request.more_destinations.push_back({{}, "b" + std::to_string(i)});
    request.ranges.push_back({{i, 1000}, {2 * i, 1000}, i, i});
  }
  const auto expected = Played(request, sources, sinks);
  auto done = cluster["east"].Copy(alice, request);
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(done->parts == kMany);
  CHECK(done->bytes_done == kMany * 1000);
  CHECK(done->receipt.ranges == kMany);
  CheckHolds(sinks, expected);
}

namespace {

// Two parts that take their time.
struct SlowBundle {
  SlowBundle()
      : cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
          plan.options.slot_bytes = 4096;
          plan.options.slots = 2;
          plan.options.stall_timeout = 300ms;
          plan.options.resume_for = 0ms;
        }) {
    for (const char* name : {"a0", "a1"}) REQUIRE_OK(east.CreateBuffer(alice, name, kLarge));
    for (const char* name : {"b0", "b1"}) REQUIRE_OK(west.CreateBuffer(bob, name, kLarge));
    TransferRequest request = Request("east:a0", "west:b0");
    request.policy.path_glob = "tcp-staged";
    request.more_sources = {{{}, "a1"}};
    request.more_destinations = {{{}, "b1"}};
    request.ranges = {{{0, kLarge}, {0, kLarge}, 0, 0}, {{0, kLarge}, {0, kLarge}, 1, 1}};
    auto started = east.Start(alice, request);
    REQUIRE_OK(started);
    id = started->id;
    CHECK(west.Wait(bob, id, TransferState::kRunning).state == TransferState::kRunning);
  }

  void CheckCancelled(EngineNode& node, const Principal& who, const std::string& prefix) {
    const TransferInfo ended = node.Wait(who, id);
    INFO(ended.error.ToString());
    CHECK(ended.state == TransferState::kCancelled);
    CHECK(ended.bytes_done < 2 * kLarge);
    // Nothing holds them any more.
    CHECK(DeleteBuffer(node, who, prefix + "0", false).ok());
    CHECK(DeleteBuffer(node, who, prefix + "1", false).ok());
  }

  static constexpr uint64_t kLarge = 256 << 20;
  EngineCluster cluster;
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  Principal alice = east.Attach();
  Principal bob = west.Attach();
  TransferId id;
};

}  // namespace

TEST_CASE("several buffers: one cancellation ends all parts, on both nodes") {
  SlowBundle slow;
  const auto cancelled = slow.east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.CancelTransfer(slow.alice, slow.id, std::move(reply));
  });
  REQUIRE_OK(cancelled);
  slow.CheckCancelled(slow.east, slow.alice, "a");
  slow.CheckCancelled(slow.west, slow.bob, "b");
}

TEST_CASE("several buffers: when one of them goes, the whole transfer fails") {
  SlowBundle slow;
  const bool source = GENERATE(true, false);
  const Status removed = source ? DeleteBuffer(slow.east, slow.alice, "a1", true)
                                : DeleteBuffer(slow.west, slow.bob, "b1", true);
  CHECK(removed.ok());
  const TransferInfo ended = slow.west.Wait(slow.bob, slow.id);
  INFO(ended.error.ToString());
  CHECK(ended.state != TransferState::kSucceeded);
  CHECK(slow.east.Wait(slow.alice, slow.id).state == ended.state);
}
