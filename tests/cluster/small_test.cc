// Small transfers of a client between two nodes: by its ring, and right, whatever happens there.
#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "transport/digest/tree.h"

namespace small_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::HostBuffer;
using onecopy::TransferId;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kBytes = 256 * 1024;
constexpr uint64_t kPiece = 4096;

// A client at each node, with a buffer; bytes go from east to west.
struct Small {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  HostBuffer from = Filled(east, "from", kBytes, 1);
  HostBuffer to = Must(west.CreateHostBuffer("to", kBytes));

  static TransferRequest Piece(uint64_t offset) {
    return {.source = {"east", "from", offset, kPiece}, .destination = {"west", "to", offset, {}}};
  }
};

bool ByRing(Client& client, const TransferId& id) {
  return Must(client.GetTransfer(id)).receipt.evidence.contains("submitted");
}

}  // namespace

TEST_CASE("a client moves small pieces between nodes by its ring, asked for at either end") {
  Small with;
  Client& client = GENERATE(true, false) ? with.west : with.east;
  TransferInfo last;
  for (uint64_t at = 0; at < kBytes; at += kPiece) {
    last = Must(client.RunTransfer(Small::Piece(at)));
    REQUIRE(last.state == TransferState::kSucceeded);
    REQUIRE(IsPayload(with.to.data() + at, kPiece, 1, at));
  }
  CHECK(ByRing(client, last.id));
  CHECK(last.receipt.path == "tcp-direct");
  CHECK(last.receipt.copies() == 3);
  CHECK(last.source.node == "east");
  CHECK(last.destination.node == "west");
}

TEST_CASE("who names buffers without lengths moves them by the ring, too") {
  Small with;
  const HostBuffer inside = Filled(with.west, "inside", kPiece, 3);
  const HostBuffer beyond = Filled(with.east, "beyond", kPiece, 4);
  HostBuffer into = Must(with.west.CreateHostBuffer("into", kPiece));
  struct Named {
    const char* node;
    const char* buffer;
    Client& asks;
    uint64_t seed;
  };
  for (const Named& named :
       {Named{"west", "inside", with.west, 3}, Named{"east", "beyond", with.west, 4},
        Named{"east", "beyond", with.east, 4}}) {
    CAPTURE(named.node, named.seed);
    const uint64_t offset = GENERATE(uint64_t{0}, uint64_t{96});
    const uint64_t bytes = kPiece - offset;
    TransferRequest request{.source = {named.node, named.buffer, offset, {}},
                            .destination = {"west", "into", 0, {}}};
    if (GENERATE(false, true)) request.destination.bytes = bytes;
    TransferInfo last;
    for (int i = 0; i < 3; ++i) {
      std::fill_n(into.data(), kPiece, std::byte{0xee});
      last = Must(named.asks.RunTransfer(request));
      REQUIRE(last.state == TransferState::kSucceeded);
      CHECK(last.bytes == bytes);
      REQUIRE(IsPayload(into.data(), bytes, named.seed, offset));
      CHECK((offset == 0 || into.data()[bytes] == std::byte{0xee}));
    }
    CHECK(ByRing(named.asks, last.id));
    // What is not so long is refused as ever.
    request.destination.bytes = bytes - 1;
    CHECK(named.asks.RunTransfer(request).status().reason() == "SIZE_MISMATCH");
    request.destination.bytes = std::nullopt;
    request.destination.offset_bytes = offset + 1;
    CHECK(named.asks.RunTransfer(request).status().reason() == "RANGE_OUT_OF_BUFFER");
  }
}

TEST_CASE("what a policy allows goes by the ring, and nothing else does") {
  Small with;
  Client& client = GENERATE(true, false) ? with.west : with.east;
  const auto move = [&](const onecopy::Policy& policy) {
    TransferRequest request = Small::Piece(4096);
    request.policy = policy;
    std::fill_n(with.to.data(), kBytes, std::byte{0});
    return client.RunTransfer(request);
  };
  REQUIRE(Must(move({.path_glob = "tcp-staged"})).receipt.path == "tcp-staged");
  REQUIRE(Must(move({.path_glob = "tcp-staged"})).receipt.path == "tcp-staged");
  for (const onecopy::Policy& policy :
       {onecopy::Policy{.path_glob = "tcp-direct"}, onecopy::Policy{.path_glob = "*-d?rect"},
        onecopy::Policy{.at_most_copies = 3}, onecopy::Policy{.link = "tcp"},
        onecopy::Policy{.path_glob = "tcp-*", .at_most_copies = 4, .link = "tcp"}}) {
    CAPTURE(policy.path_glob, policy.link);
    const TransferInfo moved = Must(move(policy));
    CHECK(moved.receipt.path == "tcp-direct");
    CHECK(moved.receipt.link == "tcp");
    CHECK(ByRing(client, moved.id));
    CHECK(IsPayload(with.to.data() + kPiece, kPiece, 1, kPiece));
  }
  const TransferInfo staged = Must(move({.path_glob = "tcp-staged"}));
  CHECK(staged.receipt.path == "tcp-staged");
  CHECK_FALSE(ByRing(client, staged.id));
  for (const auto& [policy, reason] : std::vector<std::pair<onecopy::Policy, std::string>>{
           {{.at_most_copies = 2}, "POLICY_UNMET"},
           {{.at_most_copies = 0}, "BAD_POLICY"},
           {{.path_glob = "rdma-*"}, "POLICY_UNMET"},
           {{.path_glob = "tcp-direkt"}, "BAD_POLICY"},
           {{.link = "ucx-"}, "BAD_POLICY"}}) {
    CAPTURE(policy.path_glob, policy.link);
    CHECK(move(policy).status().reason() == reason);
  }
}

TEST_CASE(
    "small pieces whose checksum is asked for go by the ring, inside a node and between two") {
  Small with;
  const HostBuffer inside = Filled(with.west, "inside", kBytes, 1);
  struct From {
    const char* node;
    const char* buffer;
    Client& asks;
    const char* path;
  };
  for (const From& from :
       {From{"west", "inside", with.west, "local"}, From{"east", "from", with.west, "tcp-direct"},
        From{"east", "from", with.east, "tcp-direct"}}) {
    CAPTURE(from.node, from.path);
    TransferInfo last;
    for (uint64_t at = 0; at < 8 * kPiece; at += kPiece) {
      last = Must(from.asks.RunTransfer({.source = {from.node, from.buffer, at, kPiece},
                                         .destination = {"west", "to", at, {}},
                                         .checksum = true}));
      REQUIRE(IsPayload(with.to.data() + at, kPiece, 1, at));
    }
    CHECK(ByRing(from.asks, last.id));
    CHECK(last.receipt.path == from.path);
    const std::string sum = onecopy::digest::TreeHexOf(with.to.data() + 7 * kPiece, kPiece);
    CHECK(last.receipt.checksum == onecopy::ChecksumResult{"xxh3-128-tree", sum, true});
    CHECK(Must(from.asks.GetTransfer(last.id)).receipt.checksum == last.receipt.checksum);
    // gRPC carries longer transfers, and those that are only started.
    TransferRequest more{.source = {from.node, from.buffer, 0, kBytes},
                         .destination = {"west", "to", 0, {}},
                         .checksum = true};
    const TransferInfo whole = Must(from.asks.RunTransfer(more));
    CHECK_FALSE(ByRing(from.asks, whole.id));
    CHECK(whole.receipt.checksum);
    more.source.bytes = kPiece;
    const TransferInfo started = Must(from.asks.StartTransfer(more));
    CHECK(Must(from.asks.AwaitTransfer(started.id)).receipt.checksum);
    CHECK_FALSE(ByRing(from.asks, started.id));
  }
}

TEST_CASE("checksums of small pieces of views are those of the views' bytes") {
  Small with;
  constexpr uint64_t kFrom = 8200;
  constexpr uint64_t kTo = 4100;
  constexpr uint64_t kView = 65'536;
  Must(with.east.CreateView({.name = "slice", .range = {"", "from", kFrom, kView}}));
  Must(with.west.CreateView({.name = "window", .range = {"", "to", kTo, kView}}));
  const HostBuffer inside = Filled(with.west, "inside", kBytes, 1);
  Must(with.west.CreateView({.name = "part", .range = {"", "inside", kFrom, kView}}));
  for (const auto& [node, buffer, asks] :
       {std::tuple("east", "slice", &with.west), std::tuple("east", "slice", &with.east),
        std::tuple("west", "part", &with.west)}) {
    CAPTURE(node, buffer);
    std::fill_n(with.to.data(), kBytes, std::byte{0});
    TransferInfo last;
    for (uint64_t at = 0; at < kView; at += kPiece) {
      last = Must(asks->RunTransfer({.source = {node, buffer, at, kPiece},
                                     .destination = {"west", "window", at, {}},
                                     .checksum = true}));
      const std::string sum = onecopy::digest::TreeHexOf(with.to.data() + kTo + at, kPiece);
      REQUIRE(last.receipt.checksum == onecopy::ChecksumResult{"xxh3-128-tree", sum, true});
    }
    CHECK(ByRing(*asks, last.id));
    CHECK(IsPayload(with.to.data() + kTo, kView, 1, kFrom));
    CHECK(std::all_of(with.to.data(), with.to.data() + kTo,
                      [](std::byte byte) { return byte == std::byte{0}; }));
    CHECK(std::all_of(with.to.data() + kTo + kView, with.to.data() + kBytes,
                      [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_CASE("a transfer with a deadline goes by the ring, and one of no time does not") {
  Small with;
  Client& client = GENERATE(true, false) ? with.west : with.east;
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(Small::Piece(0)));
  TransferRequest timed = Small::Piece(kPiece);
  timed.deadline = std::chrono::seconds(60);
  const TransferInfo moved = Must(client.RunTransfer(timed));
  REQUIRE(moved.state == TransferState::kSucceeded);
  CHECK(ByRing(client, moved.id));
  CHECK(IsPayload(with.to.data() + kPiece, kPiece, 1, kPiece));
  const TransferInfo started = Must(client.StartTransfer(timed));
  CHECK(Must(client.AwaitTransfer(started.id)).state == TransferState::kSucceeded);
  CHECK(ByRing(client, started.id));
  timed.deadline = std::chrono::milliseconds(0);
  CHECK(client.RunTransfer(timed).status().reason() == "BAD_ARGUMENT");
}

TEST_CASE("many short pieces inside a node go by the ring as one transfer, as by gRPC") {
  Small with;
  Client& client = with.east;
  HostBuffer to = Must(client.CreateHostBuffer("inside", kBytes));
  // 512 blocks of 128 bytes: the last goes first, each into every second place.
  constexpr uint64_t kBlock = 128;
  auto ranges = std::make_shared<onecopy::EqualRanges>();
  ranges->bytes = kBlock;
  for (uint64_t i = 512; i-- > 0;) {
    ranges->sources.push_back(i * kBlock);
    ranges->destinations.push_back(2 * i * kBlock);
  }
  TransferRequest request{.source = {"east", "from", 4096, {}},
                          .destination = {"east", "inside", 8192, {}}};
  request.equal_ranges = ranges;
  const auto move = [&] {
    std::fill_n(to.data(), kBytes, std::byte{0xee});
    TransferInfo done = Must(client.RunTransfer(request));
    REQUIRE(done.state == TransferState::kSucceeded);
    for (uint64_t i = 0; i < 512; ++i) {
      const std::byte* const at = to.data() + 8192 + 2 * i * kBlock;
      REQUIRE(IsPayload(at, kBlock, 1, 4096 + i * kBlock));
      REQUIRE(std::all_of(at + kBlock, at + 2 * kBlock,
                          [](std::byte one) { return one == std::byte{0xee}; }));
    }
    REQUIRE(to.data()[8191] == std::byte{0xee});
    return done;
  };
  const TransferInfo first = move();
  move();
  const TransferInfo last = move();
  CHECK_FALSE(ByRing(client, first.id));
  CHECK(ByRing(client, last.id));
  for (const TransferInfo& done : {first, last, Must(client.GetTransfer(last.id))}) {
    CHECK(done.bytes == 512 * kBlock);
    CHECK(done.source.offset_bytes == 4096);
    CHECK(done.source.bytes == 512 * kBlock);
    CHECK(done.destination.offset_bytes == 8192);
    CHECK(done.destination.bytes == 1023 * kBlock);
    CHECK(done.receipt.ranges == 512);
    CHECK(done.receipt.merged_ranges == 512);
    CHECK(done.receipt.path == "local");
    REQUIRE(done.receipt.copies() == 1);
    CHECK(done.receipt.steps.front().bytes == 512 * kBlock);
  }

  // What is wrong is told in the same words, and moves nothing.
  const auto refused = [&](auto change, const char* reason) {
    auto wrong = std::make_shared<onecopy::EqualRanges>(*ranges);
    change(*wrong);
    request.equal_ranges = wrong;
    std::fill_n(to.data(), kBytes, std::byte{0xee});
    CHECK(client.RunTransfer(request).status().reason() == reason);
    CHECK(std::all_of(to.data(), to.data() + kBytes,
                      [](std::byte one) { return one == std::byte{0xee}; }));
  };
  refused([](auto& wrong) { wrong.destinations[3] = wrong.destinations[4] + 1; }, "RANGES_OVERLAP");
  refused([](auto& wrong) { wrong.sources[3] = kBytes; }, "RANGE_OUT_OF_BUFFER");
  refused([](auto& wrong) { wrong.destinations[3] = UINT64_MAX - kBlock; }, "RANGE_OUT_OF_BUFFER");
  refused([](auto& wrong) { wrong.destinations.pop_back(); }, "BAD_ARGUMENT");
  request.equal_ranges = ranges;
  CHECK(ByRing(client, move().id));
}

TEST_CASE("hundreds of small pieces between nodes are under way at once") {
  Small with;
  Client& client = GENERATE(true, false) ? with.west : with.east;
  std::vector<TransferId> under_way;
  for (int round = 0; round < 8; ++round) {
    std::fill_n(with.to.data(), kBytes, std::byte{0});
    for (uint64_t at = 0; at < kBytes; at += kPiece) {
      under_way.push_back(Must(client.StartTransfer(Small::Piece(at))).id);
    }
    for (const TransferId& id : under_way) {
      REQUIRE(Must(client.AwaitTransfer(id)).state == TransferState::kSucceeded);
    }
    REQUIRE(IsPayload(with.to.data(), kBytes, 1));
    CHECK(ByRing(client, under_way.back()));
    under_way.clear();
  }
}

TEST_CASE("a client that moves small pieces hears of a buffer that has gone, and of a new one") {
  Small with;
  Client& client = GENERATE(true, false) ? with.west : with.east;
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(Small::Piece(0)));
  const bool source = GENERATE(true, false);
  if (source) {
    with.pair.east.Do({"buffer", "rm", "from"});
  } else {
    with.pair.west.Do({"buffer", "rm", "to"});
  }
  const auto gone = client.RunTransfer(Small::Piece(0));
  REQUIRE_FALSE(gone.ok());
  CHECK(gone.status().reason() == "BUFFER_NOT_FOUND");
  if (source) {
    with.pair.east.Do({"buffer", "create", "from", "--size", "256KiB"});
  } else {
    with.pair.west.Do({"buffer", "create", "to", "--size", "256KiB"});
  }
  TransferInfo last;
  for (int i = 0; i < 3; ++i) {
    last = Must(client.RunTransfer(Small::Piece(0)));
    CHECK(last.state == TransferState::kSucceeded);
  }
}

TEST_CASE(
    "a client that moves small pieces hears that the other node is gone, and finds it again") {
  Small with;
  const bool at_destination = GENERATE(true, false);
  Client& client = at_destination ? with.west : with.east;
  Node& other = at_destination ? with.pair.east : with.pair.west;
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(Small::Piece(0)));
  other.Kill();
  const auto gone = client.RunTransfer(Small::Piece(0));
  if (gone.ok()) {
    CHECK(gone->state == TransferState::kFailed);
  } else {
    CHECK(gone.status().code() == Code::kUnavailable);
  }
  other.Restart();
  other.Do({"buffer", "create", at_destination ? "from" : "to", "--size", "256KiB"});
  WaitUntil("the node is found again", [&] {
    const auto again = client.RunTransfer(Small::Piece(0));
    return again.ok() && again->state == TransferState::kSucceeded;
  });
  TransferInfo last;
  WaitUntil("a ring carries small pieces again", [&] {
    last = Must(client.RunTransfer(Small::Piece(0)));
    return ByRing(client, last.id);
  });
}

TEST_CASE("a frozen node holds up nobody for ever who moves small pieces to it or from it") {
  Small with;
  const bool at_destination = GENERATE(true, false);
  Client& client = at_destination ? with.west : with.east;
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(Small::Piece(0)));
  Frozen frozen(at_destination ? with.pair.east : with.pair.west);
  TransferRequest request = Small::Piece(0);
  const bool timed = GENERATE(false, true);
  if (timed) request.deadline = std::chrono::seconds(1);
  const auto held = client.RunTransfer(request);
  CHECK_FALSE((held.ok() && held->state == TransferState::kSucceeded));
  if (timed) CHECK((held.ok() ? OutcomeOf(*held) : held.status()).reason() == "DEADLINE");
}
}  // namespace small_test
