// Names for parts of memory: what a view reaches, and what it does not.
#include <algorithm>
#include <numeric>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/ring_of.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kViewsBytes = 600'000;

using Bytes = std::vector<std::byte>;

Result<std::vector<BufferInfo>> Name(EngineNode& node, const Principal& who,
                                     std::vector<ViewRequest> views) {
  return node.Ask<std::vector<BufferInfo>>(
      [&](ClientApi& api, auto reply) { api.CreateViews(who, views, std::move(reply)); });
}

Result<BufferInfo> Name(EngineNode& node, const Principal& who, const std::string& name,
                        const std::string& range, std::optional<ArrayShape> array = {}) {
  auto made =
      Name(node, who, {{.name = name, .range = ParseEnd(range), .array = std::move(array)}});
  if (!made.ok()) return made.status();
  return std::move(made->front());
}

Status Remove(EngineNode& node, const Principal& who, const std::string& name, bool force) {
  return node
      .Ask<bool>([&](ClientApi& api, auto reply) {
        api.DeleteBuffer(who, {}, name, force,
                         [reply = std::move(reply)](const Status& status) mutable {
                           reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
                         });
      })
      .status();
}

Result<BufferInfo> Get(EngineNode& node, const Principal& who, const std::string& name) {
  return node.Ask<BufferInfo>(
      [&](ClientApi& api, auto reply) { api.GetBuffer(who, {}, name, std::move(reply)); });
}

// Where each byte of the array lies in its memory, in the order of its elements.
std::vector<uint64_t> Offsets(const ArrayShape& array, uint64_t at) {
  auto ranges = RangesOf(array);
  REQUIRE_OK(ranges);
  std::vector<uint64_t> offsets;
  for (const StridedRange& range : *ranges) {
    for (uint64_t i = 0; i < range.count; ++i) {
      for (uint64_t k = 0; k < range.bytes; ++k) {
        offsets.push_back(at + range.offset + i * range.stride + k);
      }
    }
  }
  return offsets;
}

std::vector<uint64_t> Plain(uint64_t at, uint64_t bytes) {
  std::vector<uint64_t> offsets(bytes);
  std::iota(offsets.begin(), offsets.end(), at);
  return offsets;
}

// Both memories after the bytes at `from` have gone to those at `to`, and nothing else.
void CheckMoved(EngineNode& node, const Principal& who, TransferRequest request,
                const EngineNode::Registered& source, const std::vector<uint64_t>& from,
                const EngineNode::Registered& sink, const std::vector<uint64_t>& to,
                const std::string& path) {
  CAPTURE(request.source.ToString(), request.destination.ToString(), path);
  Fill(source, 1);
  Fill(sink, 2);
  Bytes expected(sink.data, sink.data + sink.info.bytes);
  REQUIRE(from.size() == to.size());
  for (size_t i = 0; i < from.size(); ++i) expected[to[i]] = source.data[from[i]];
  request.policy.path_glob = path;
  request.checksum = true;
  auto copied = node.Copy(who, request);
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  CHECK(std::equal(expected.begin(), expected.end(), sink.data));
  CHECK(copied->bytes == from.size());
  CHECK(copied->receipt.path == path);
  CHECK(copied->receipt.checksum->verified);
  for (const ExecutedStep& step : copied->receipt.steps) CHECK(step.bytes == from.size());
}

// Alice's buffers "a" on east, and "b" on west, whose owner she is, too.
struct Two {
  EngineCluster cluster{{"east", "west"}};
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  Principal in_east = east.Attach(1000);
  Principal in_west = west.Attach(1000);
  EngineNode::Registered a = Made(east, in_east, "a");
  EngineNode::Registered b = Made(west, in_west, "b");

  Two() { cluster.WaitForPeer("west", "east", NodeState::kConnected); }
  static EngineNode::Registered Made(EngineNode& node, const Principal& who,
                                     const std::string& name) {
    auto made = node.Register(who, name, kViewsBytes);
    REQUIRE_OK(made);
    return std::move(*made);
  }
};

}  // namespace

TEST_CASE("a view is a part of memory that its name cannot leave") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Two::Made(east, alice, "a");
  const auto sink = Two::Made(east, alice, "sink");
  const auto view = Name(east, alice, "s", "a@800+800");
  REQUIRE_OK(view);
  CHECK(view->name == "s");
  CHECK(view->bytes == 800);
  CHECK(view->view_of == a.info.id);
  CHECK(view->offset_bytes == 800);
  CHECK(view->registered);
  CHECK(view->owner == a.info.owner);
  CHECK(view->memory == a.info.memory);
  CHECK_FALSE(view->array);

  CheckMoved(east, alice, Request("s", "sink@0+800"), a, Plain(800, 800), sink, Plain(0, 800),
             "local");
  CheckMoved(east, alice, Request("sink@8+8", "s@16+8"), sink, Plain(8, 8), a, Plain(816, 8),
             "local");
  TransferRequest ranges = Request("s@100+600", "sink@5+600");
  ranges.ranges = {{{0, 10, 20, 10}, {400, 100}}, {{300, 7}, {0, 7}}};
  std::vector<uint64_t> from;
  for (uint64_t i = 0; i < 100; ++i) from.push_back(900 + i / 10 * 20 + i % 10);
  for (uint64_t i = 0; i < 7; ++i) from.push_back(1200 + i);
  std::vector<uint64_t> to = Plain(405, 100);
  for (const uint64_t offset : Plain(5, 7)) to.push_back(offset);
  CheckMoved(east, alice, ranges, a, from, sink, to, "local");

  for (const char* end : {"s@0+801", "s@800+1", "s@801"}) {
    const auto left = east.Start(alice, Request("sink@0+1", end));
    CAPTURE(end);
    CHECK(left.status().reason() == reasons::kRangeOutOfBuffer);
  }
  // By its id as well, and a view of a view is one of the memory.
  CheckMoved(east, alice, Request(view->id + "@8+8", "sink@0+8"), a, Plain(808, 8), sink,
             Plain(0, 8), "local");
  const auto inner = Name(east, alice, "inner", "s@100+10");
  REQUIRE_OK(inner);
  CHECK(inner->view_of == a.info.id);
  CHECK(inner->offset_bytes == 900);
  CHECK(Name(east, alice, "t", "s@799+2").status().reason() == reasons::kRangeOutOfBuffer);
  CHECK(Name(east, alice, "t", "s@800").status().reason() == reasons::kBadSize);
  CHECK(Name(east, alice, "t", "nothing").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("an array with gaps is moved in the order of its elements, by every path of tcp") {
  Two two;
  const ArrayShape column{"float32", 4, {5'000}, {48}};
  const ArrayShape matrix{"int16", 2, {40, 3, 50}, {2000, 600, 4}};
  const ArrayShape turned{"uint8", 1, {300, 200}, {1, 300}};  // Fortran's order
  for (const ArrayShape& array : {column, matrix, turned}) {
    CAPTURE(ToString(array));
    const auto from = Name(two.east, two.in_east, {}, "a@104", array);
    REQUIRE_OK(from);
    CHECK(from->array == array);
    const auto to = Name(two.west, two.in_west, {}, "b@31", array);
    REQUIRE_OK(to);
    const std::vector<uint64_t> leaves = Offsets(array, 104);
    const std::vector<uint64_t> arrives = Offsets(array, 31);
    CHECK(from->bytes == leaves.size());
    const std::string source = "east:" + from->id;
    const std::string sink = "west:" + to->id;
    for (const char* path : {"tcp-direct", "tcp-bounce", "tcp-staged"}) {
      if (std::string(path) == "tcp-bounce") continue;  // of a GPU at one end
      CheckMoved(two.east, two.in_east, Request(source, sink), two.a, leaves, two.b, arrives, path);
      CheckMoved(two.west, two.in_west, Request(source, "b@9"), two.a, leaves, two.b,
                 Plain(9, leaves.size()), path);
      CheckMoved(two.east, two.in_east, Request("a@7+" + std::to_string(to->bytes), sink), two.a,
                 Plain(7, leaves.size()), two.b, arrives, path);
    }
    // Offsets count in its packed bytes: here from within one element into another.
    const std::vector<uint64_t> part(leaves.begin() + 33, leaves.begin() + 33 + 4'444);
    CheckMoved(two.east, two.in_east, Request(source + "@33+4444", "west:b"), two.a, part, two.b,
               Plain(0, part.size()), "tcp-direct");
    const std::vector<uint64_t> into(arrives.begin() + 5, arrives.begin() + 5 + 4'444);
    CheckMoved(two.east, two.in_east, Request("a@0+4444", sink + "@5+4444"), two.a, Plain(0, 4'444),
               two.b, into, "tcp-direct");
    // And so do ranges in it.
    TransferRequest ranges = Request(source + "@16", "west:b");
    ranges.ranges = {{{0, 3, 11, 300}, {1000, 900}}};
    std::vector<uint64_t> scattered;
    for (uint64_t i = 0; i < 900; ++i) scattered.push_back(leaves[16 + i / 3 * 11 + i % 3]);
    CheckMoved(two.east, two.in_east, ranges, two.a, scattered, two.b, Plain(1000, 900),
               "tcp-direct");
  }
}

TEST_CASE("inside a node arrays with gaps go from memory to memory, and to themselves not") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Two::Made(east, alice, "a");
  const auto sink = Two::Made(east, alice, "sink");
  const ArrayShape even{"int32", 4, {1000}, {8}};
  REQUIRE_OK(Name(east, alice, "even", "a", even));
  REQUIRE_OK(Name(east, alice, "odd", "a@4", even));
  REQUIRE_OK(Name(east, alice, "other", "sink@100", even));
  CheckMoved(east, alice, Request("even", "other"), a, Offsets(even, 0), sink, Offsets(even, 100),
             "local");
  // One memory, and no byte in common.
  Fill(a, 3);
  Bytes expected(a.data, a.data + a.info.bytes);
  for (uint64_t i = 0; i < 1000; ++i) {
    std::copy_n(a.data + i * 8, 4, expected.data() + i * 8 + 4);
  }
  const auto copied = east.Copy(alice, Request("even", "odd"));
  REQUIRE_OK(copied);
  CHECK(copied->state == TransferState::kSucceeded);
  CHECK(std::equal(expected.begin(), expected.end(), a.data));
  for (const auto& [from, to] : {std::pair("even", "a@0+4000"), std::pair("a@0+4000", "even"),
                                 std::pair("even@0+8", "even@4+8"), std::pair("odd", "odd")}) {
    CAPTURE(from, to);
    CHECK(east.Start(alice, Request(from, to)).status().reason() == reasons::kRangesOverlap);
  }
  const auto plan = east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    TransferRequest request = Request("even@4+12", "other@8+12");
    request.validate_only = true;
    api.CreateTransfer(alice, request, {}, std::move(reply));
  });
  REQUIRE_OK(plan);
  CHECK(plan->bytes == 12);
}

TEST_CASE("views of one memory are one transfer's buffers, unless they share what is written") {
  Two two;
  constexpr uint64_t kTensor = 1'000;
  std::vector<ViewRequest> from;
  std::vector<ViewRequest> to;
  for (uint64_t i = 0; i < 290; ++i) {
    from.push_back({.name = "t" + std::to_string(i), .range = {{}, "a", i * kTensor, kTensor}});
    to.push_back(
        {.name = "t" + std::to_string(i), .range = {{}, "b", (289 - i) * kTensor, kTensor}});
  }
  const auto sources = Name(two.east, two.in_east, from);
  REQUIRE_OK(sources);
  CHECK(sources->size() == 290);
  REQUIRE_OK(Name(two.west, two.in_west, to));
  TransferRequest request = Request("east:t0", "west:t0");
  for (uint32_t i = 0; i < 290; ++i) {
    if (i > 0) {
      request.more_sources.push_back({{}, "t" + std::to_string(i)});
      request.more_destinations.push_back({{}, "t" + std::to_string(i)});
    }
    request.ranges.push_back({{0, kTensor}, {0, kTensor}, i, i});
  }
  Fill(two.a, 1);
  Fill(two.b, 2);
  const auto copied = two.east.Copy(two.in_east, request);
  REQUIRE_OK(copied);
  CHECK(copied->state == TransferState::kSucceeded);
  for (uint64_t i = 0; i < 290; ++i) {
    const std::byte* const left = two.a.data + i * kTensor;
    CHECK(std::equal(left, left + kTensor, two.b.data + (289 - i) * kTensor));
  }
  // Two names that share bytes cannot both be written.
  REQUIRE_OK(Name(two.west, two.in_west, "shared", "b@500+1000"));
  request.more_destinations.back().buffer = "shared";
  CHECK(two.east.Start(two.in_east, request).status().reason() == reasons::kRangesOverlap);
  // Columns that lie between each other share none.
  const ArrayShape half{"int16", 2, {250}, {4}};
  REQUIRE_OK(Name(two.west, two.in_west, "left", "b", half));
  REQUIRE_OK(Name(two.west, two.in_west, "right", "b@2", half));
  TransferRequest columns = Request("east:t0", "west:left");
  columns.more_destinations = {{{}, "right"}};
  columns.ranges = {{{0, 500}, {0, 500}, 0, 0}, {{500, 500}, {0, 500}, 0, 1}};
  const auto woven = two.east.Copy(two.in_east, columns);
  REQUIRE_OK(woven);
  CHECK(woven->state == TransferState::kSucceeded);
  CHECK(std::equal(two.a.data, two.a.data + 2, two.b.data));
  CHECK(std::equal(two.a.data + 500, two.a.data + 502, two.b.data + 2));
}

TEST_CASE("a right on a view opens that view, and nothing beside it") {
  Two two;
  const auto bob = two.west.Attach(1001);
  const ArrayShape column{"int32", 4, {100}, {40}};
  REQUIRE_OK(Name(two.east, two.in_east, "column", "a@400", column));
  REQUIRE_OK(Name(two.east, two.in_east, "beside", "a@404+4"));
  const auto grant = two.east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
    api.CreateGrant(two.in_east,
                    {.range = {{}, "column", 40, 200}, .to = "1001@west", .read = true},
                    std::move(reply));
  });
  REQUIRE_OK(grant);
  CHECK(grant->buffer == "column");
  CHECK(grant->range == ByteRange{40, 200});
  auto made = two.west.Register(bob, "sink", kViewsBytes);
  REQUIRE_OK(made);
  const std::vector<uint64_t> all = Offsets(column, 400);
  CheckMoved(two.west, bob, Request("east:column@40+200", "sink"), two.a,
             {all.begin() + 40, all.begin() + 240}, *made, Plain(0, 200), "tcp-direct");
  for (const char* range : {"east:column", "east:column@36+8", "east:column@40+201"}) {
    CAPTURE(range);
    CHECK(two.west.Start(bob, Request(range, "sink")).status().reason() == reasons::kNotOwner);
  }
  for (const char* range : {"east:a@400+4", "east:beside", "east:a"}) {
    CAPTURE(range);
    CHECK(two.west.Start(bob, Request(range, "sink")).status().reason() ==
          reasons::kBufferNotFound);
  }
  // Nor does it let anybody name more of the memory, or use it in place.
  const auto eve = two.east.Attach(1001);
  CHECK(Name(two.east, eve, "mine", "column@40+8").status().reason() == reasons::kNotOwner);
}

TEST_CASE("a name is given once, and to all of a list or to none") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Two::Made(east, alice, "a");
  const auto first = Name(east, alice, "s", "a@8+8");
  REQUIRE_OK(first);
  const auto again = Name(east, alice, "s", "a@8+8");
  REQUIRE_OK(again);
  CHECK(again->id == first->id);
  CHECK(Name(east, alice, "s", "a@8+9").status().reason() == reasons::kNameTaken);
  CHECK(Name(east, alice, "a", "a@8+8").status().reason() == reasons::kNameTaken);
  CHECK(Name(east, alice, "no name", "a").status().reason() == reasons::kBadName);
  const auto some = Name(east, alice,
                         {{.name = "x", .range = {{}, "a", 0, 8}},
                          {.name = "y", .range = {{}, "a", 8, 8}},
                          {.name = "s", .range = {{}, "a", 16, 8}}});
  CHECK(some.status().reason() == reasons::kNameTaken);
  CHECK(Get(east, alice, "x").status().reason() == reasons::kBufferNotFound);
  CHECK(Get(east, alice, "y").status().reason() == reasons::kBufferNotFound);
  CHECK(Get(east, alice, "s").ok());
  const auto one = Name(east, alice, {}, "a@0+8");
  const auto other = Name(east, alice, {}, "a@0+8");
  REQUIRE_OK(one);
  REQUIRE_OK(other);
  CHECK(one->id != other->id);
  const ArrayShape overlapping{"int32", 4, {4, 4}, {4, 4}};
  CHECK(Name(east, alice, "o", "a", overlapping).status().reason() == reasons::kRangesOverlap);
  const ArrayShape beyond{"int32", 4, {2}, {kViewsBytes - 3}};
  CHECK(Name(east, alice, "o", "a", beyond).status().reason() == reasons::kRangeOutOfBuffer);
}

TEST_CASE("a view goes with its memory, and the memory stays without its views") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Two::Made(east, alice, "a");
  REQUIRE_OK(Name(east, alice, "s", "a@8+8"));
  REQUIRE_OK(Name(east, alice, "t", "a@16+8"));
  CHECK(Remove(east, alice, "s", false).ok());
  CHECK(Get(east, alice, "s").status().reason() == reasons::kBufferNotFound);
  CHECK(Get(east, alice, "a").ok());
  const Status kept = Remove(east, alice, "a", false);
  CHECK(kept.reason() == reasons::kBufferInUse);
  CHECK(kept.message().find("1 view") != std::string::npos);
  CHECK(Remove(east, alice, "a", true).ok());
  CHECK(Get(east, alice, "t").status().reason() == reasons::kBufferNotFound);
  // The daemon's own memory may have views, too; those go with it and not with who named them.
  REQUIRE_OK(east.CreateBuffer(alice, "own", 4096));
  REQUIRE_OK(Name(east, alice, "part", "own@1+10"));
  const auto client = Two::Made(east, alice, "registered");
  REQUIRE_OK(Name(east, alice, "u", "registered@8+8"));
  east.Detach(alice);
  const Principal later = east.Attach(1000);
  CHECK(Get(east, later, "part").ok());
  CHECK(Get(east, later, "u").status().reason() == reasons::kBufferNotFound);
  CHECK(Get(east, later, "registered").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a ring carries what goes between views, and not what has gaps") {
  Two two;
  REQUIRE_OK(Name(two.east, two.in_east, "s", "a@1000+512"));
  REQUIRE_OK(Name(two.west, two.in_west, "d", "b@3000+512"));
  const auto local = Two::Made(two.east, two.in_east, "local");
  REQUIRE_OK(Name(two.east, two.in_east, "here", "local@77+512"));
  REQUIRE_OK(Name(two.east, two.in_east, "near", "a@1256+512"));
  const ArrayShape column{"int32", 4, {100}, {40}};
  REQUIRE_OK(Name(two.east, two.in_east, "column", "a", column));
  RingOf east(two.east, two.in_east);
  RingOf west(two.west, two.in_west);
  struct Way {
    RingOf& ring;
    std::string from;
    std::string to;
    const EngineNode::Registered& sink;
    uint64_t at;
  };
  for (const Way& way :
       {Way{east, "s@0+8", "here@0+8", local, 77}, Way{east, "s@0+8", "west:d@0+8", two.b, 3000},
        Way{west, "east:s@0+8", "d@0+8", two.b, 3000}}) {
    CAPTURE(way.from, way.to);
    Fill(two.a, 1);
    Fill(way.sink, 2);
    Bytes expected(way.sink.data, way.sink.data + way.sink.info.bytes);
    std::copy_n(two.a.data + 1000 + 12, 100, expected.data() + way.at + 34);
    const auto route = way.ring.OpenRoute(way.from, way.to);
    REQUIRE_OK(route);
    CHECK(way.ring.Move(route->word, 12, 34, 100).code == Code::kOk);
    CHECK(std::equal(expected.begin(), expected.end(), way.sink.data));
    CHECK(way.ring.Move(route->word, 500, 0, 13).code == Code::kOutOfRange);
    CHECK(way.ring.Move(route->word, 0, 500, 13).code == Code::kOutOfRange);
  }
  // Two views of one memory, of which the second begins in the middle of the first.
  const auto route = east.OpenRoute("s@0+8", "near@0+8");
  REQUIRE_OK(route);
  CHECK(east.Move(route->word, 0, 0, 256).code == Code::kOk);
  CHECK(east.Move(route->word, 0, 0, 257).code == Code::kInvalidArgument);
  for (const auto& [from, to] :
       {std::pair("column@0+8", "here@0+8"), std::pair("s@0+8", "column@0+8"),
        std::pair("column@0+8", "west:d@0+8")}) {
    CAPTURE(from, to);
    CHECK(east.OpenRoute(from, to).status().reason() == reasons::kNotApplicable);
  }
  CHECK(west.OpenRoute("east:column@0+8", "d@0+8").status().reason() == reasons::kNotApplicable);
  CHECK(west.OpenRoute("d@0+8", "east:column@0+8").status().reason() == reasons::kNotApplicable);
  // A route ends with its view, though the memory stays.
  CHECK(Remove(two.east, two.in_east, "near", true).ok());
  CHECK(east.Move(route->word, 0, 0, 8).code == Code::kNotFound);
}
