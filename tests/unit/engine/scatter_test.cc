// Transfers of many ranges, some of them strided.
#include <algorithm>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

using Ranges = std::vector<StridedRange>;

constexpr uint64_t kScatterBytes = 6'000'000;

struct Pairs {
  Ranges source;
  Ranges destination;
};

// Where the payload lies, element by element.
std::vector<ByteRange> Elements(const Ranges& ranges) {
  std::vector<ByteRange> elements;
  for (const StridedRange& range : ranges) {
    for (uint64_t i = 0; i < range.count; ++i) {
      elements.push_back({range.offset + i * range.stride, range.bytes});
    }
  }
  return elements;
}

// What the destination must hold afterwards.
std::vector<std::byte> Expected(const EngineNode::Registered& source,
                                const std::vector<std::byte>& before, const Pairs& pairs,
                                uint64_t source_at, uint64_t destination_at) {
  std::vector<ByteRange> to = Elements(pairs.destination);
  std::vector<std::byte> after = before;
  auto into = to.begin();
  for (ByteRange from : Elements(pairs.source)) {
    while (from.bytes > 0) {
      if (into->bytes == 0) ++into;
      const uint64_t bytes = std::min(from.bytes, into->bytes);
      std::copy_n(source.data + source_at + from.offset, bytes,
                  after.data() + destination_at + into->offset);
      from = {from.offset + bytes, from.bytes - bytes};
      *into = {into->offset + bytes, into->bytes - bytes};
    }
  }
  return after;
}

// Blocks in another order, with gaps.
Pairs Blocks(uint64_t count, uint64_t bytes) {
  Pairs pairs;
  for (uint64_t i = 0; i < count; ++i) {
    pairs.source.push_back({i * (bytes + 3), bytes, 0, 1});
    pairs.destination.push_back({(count - 1 - i) * (bytes + 1), bytes, 0, 1});
  }
  return pairs;
}

std::vector<std::pair<std::string, Pairs>> Cases() {
  return {
      {"blocks", Blocks(60, 70'001)},
      {"tiny ranges", Blocks(10'000, 24)},
      {"a column", {{{8, 4, 32, 100'000}}, {{5, 400'000, 0, 1}}}},
      {"into a column", {{{5, 400'000, 0, 1}}, {{8, 4, 32, 100'000}}}},
      {"column to column", {{{8, 12, 40, 50'000}}, {{3, 12, 20, 50'000}}}},
      {"unlike elements", {{{0, 4, 20, 90'000}}, {{7, 24, 60, 15'000}}}},
      {"rows of a slice", {{{100, 3000, 5000, 900}}, {{0, 3000, 3001, 900}}}},
      {"neighbours", {{{0, 1000, 0, 1}, {1000, 500, 0, 1}}, {{9, 1000, 0, 1}, {1009, 500, 0, 1}}}},
  };
}

// As a request has them.
std::vector<RangePair> Paired(const Pairs& pairs) {
  std::vector<RangePair> paired;
  for (size_t i = 0; i < pairs.source.size(); ++i) {
    paired.push_back({pairs.source[i], pairs.destination[i]});
  }
  return paired;
}

void CheckMoves(EngineNode& node, const Principal& who, const std::string& from,
                const std::string& to, const EngineNode::Registered& source,
                const EngineNode::Registered& sink, const std::string& path, size_t copies) {
  for (const auto& [name, pairs] : Cases()) {
    CAPTURE(name, path);
    Fill(sink, 2);
    const std::vector<std::byte> before(sink.data, sink.data + sink.info.bytes);
    const std::vector<std::byte> expected = Expected(source, before, pairs, 11, 7);
    TransferRequest request = Request(from + "@11", to + "@7");
    request.ranges = Paired(pairs);
    request.policy.path_glob = path;
    request.checksum = true;
    auto copied = node.Copy(who, request);
    REQUIRE_OK(copied);
    INFO(copied->error.ToString());
    REQUIRE(copied->state == TransferState::kSucceeded);
    CHECK(std::equal(expected.begin(), expected.end(), sink.data));
    const Receipt& receipt = copied->receipt;
    CHECK(receipt.path == path);
    CHECK(receipt.steps.size() == copies);
    CHECK(receipt.ranges == pairs.source.size());
    CHECK(receipt.merged_ranges == (name == "neighbours" ? 1 : pairs.source.size()));
    CHECK(receipt.checksum->verified);
    const auto ranges = Scatter::Make(request.ranges);
    REQUIRE_OK(ranges);
    const uint64_t payload = (*ranges)->source.bytes();
    CHECK(copied->bytes == payload);
    CHECK(copied->bytes_done == payload);
    for (const ExecutedStep& step : receipt.steps) CHECK(step.bytes == payload);
    uint64_t carried = 0;
    for (const LaneBytes& lane : receipt.lanes) carried += lane.bytes;
    CHECK(carried == (path.starts_with("tcp") ? payload : 0));
    const ByteRange extent = (*ranges)->source.extent();
    CHECK(copied->source.offset_bytes == 11 + extent.offset);
    CHECK(copied->source.bytes == extent.bytes);
  }
}

}  // namespace

TEST_CASE("ranges go where they belong inside a node, by one copy or two") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  auto source = cluster["east"].Register(alice, "a", kScatterBytes);
  auto sink = cluster["east"].Register(alice, "b", kScatterBytes);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(*source, 1);
  const auto [path, copies] =
      GENERATE(table<std::string, size_t>({{"local", 1}, {"peer-bounce", 2}}));
  CheckMoves(cluster["east"], alice, "a", "b", *source, *sink, path, copies);
}

TEST_CASE("ranges go where they belong between nodes, on every path") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  auto source = cluster["east"].Register(alice, "a", kScatterBytes);
  auto sink = cluster["west"].Register(bob, "b", kScatterBytes);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(*source, 1);
  const auto [path, copies] = GENERATE(
      table<std::string, size_t>({{"tcp-direct", 3}, {"tcp-bounce", 4}, {"tcp-staged", 5}}));
  CheckMoves(cluster["west"], bob, "east:a", "west:b", *source, *sink, path, copies);
}

TEST_CASE("between nodes long ranges are read in place, and short ones are gathered") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "a", kScatterBytes));
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "b", kScatterBytes));
  const auto path = [&](const Pairs& pairs) {
    TransferRequest request = Request("east:a", "west:b");
    request.ranges = Paired(pairs);
    request.validate_only = true;
    auto planned = cluster["west"].Start(bob, request);
    REQUIRE_OK(planned);
    return planned->plan->path;
  };
  CHECK(path(Blocks(20, 250'000)) == "tcp-direct");
  CHECK(path({{{8, 4, 32, 100'000}}, {{0, 400'000, 0, 1}}}) == "tcp-bounce");
  CHECK(path({{{8, 4, 32, 100'000}}, {{8, 4, 32, 100'000}}}) == "tcp-staged");
}

TEST_CASE("ranges outside their end, or shared by both, are refused before anything moves") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  auto buffer = cluster["east"].Register(alice, "a", 1000);
  auto other = cluster["east"].Register(alice, "b", 1000);
  REQUIRE_OK(buffer);
  REQUIRE_OK(other);
  Fill(*buffer, 3);
  const std::vector<std::byte> before(buffer->data, buffer->data + 1000);
  const auto reason = [&](const std::string& from, const std::string& to, const Pairs& pairs) {
    TransferRequest request = Request(from, to);
    request.ranges = Paired(pairs);
    return cluster["east"].Start(alice, request).status().reason();
  };
  CHECK(reason("a", "b", {{{990, 11, 0, 1}}, {{0, 11, 0, 1}}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason("a", "b", {{{0, 11, 0, 1}}, {{990, 11, 0, 1}}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason("a", "b", {{{0, 4, 100, 11}}, {{0, 44, 0, 1}}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason("a@10+40", "b", {{{0, 41, 0, 1}}, {{0, 41, 0, 1}}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason("a", "b@10+40", {{{0, 41, 0, 1}}, {{0, 41, 0, 1}}}) == reasons::kRangeOutOfBuffer);
  CHECK(reason("a", "a", {{{0, 4, 32, 10}}, {{3, 4, 32, 10}}}) == reasons::kRangesOverlap);
  CHECK(reason("a", "a@4", {{{0, 4, 32, 10}}, {{0, 40, 0, 1}}}) == reasons::kRangesOverlap);
  CHECK(std::equal(before.begin(), before.end(), buffer->data));
  // Interleaved, they share nothing.
  TransferRequest request = Request("a", "a@4");
  request.ranges = Paired({{{0, 4, 32, 10}}, {{0, 4, 32, 10}}});
  auto copied = cluster["east"].Copy(alice, request);
  REQUIRE_OK(copied);
  CHECK(copied->state == TransferState::kSucceeded);
  CHECK(std::equal(buffer->data, buffer->data + 4, buffer->data + 4));
}

TEST_CASE("a request of ranges that is repeated starts nothing, one of other ranges is refused") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "a", 1000));
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "b", 1000));
  TransferRequest request = Request("a", "b");
  request.request_id = "one";
  request.ranges = Paired(Blocks(10, 20));
  auto first = cluster["east"].Copy(alice, request);
  auto again = cluster["east"].Start(alice, request);
  REQUIRE_OK(first);
  REQUIRE_OK(again);
  CHECK(first->id == again->id);
  request.ranges = Paired(Blocks(10, 21));
  CHECK(cluster["east"].Start(alice, request).status().reason() == reasons::kRequestIdReused);
}
