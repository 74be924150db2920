// What everybody may have of a node is counted in bytes, and what waits takes turns.
#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/engine/staging/checksum.h"
#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "transport/core/ranges/range_groups.h"
#include "transport/digest/hasher.h"

namespace payers_test {
using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kMallory = 1666;

// A node whose payers have so much memory each.
struct Rig {
  explicit Rig(uint64_t memory, std::function<void(Options&)> change = {})
      : cluster({"east"}, [=](const std::string&, NodePlan& plan) {
          plan.options.limits.memory = {memory, 64 * memory};
          if (change) change(plan.options);
        }) {}

  Result<Reservation> Reserve(const std::string& peer, const std::string& id, uint64_t pieces) {
    ReserveRequest request;
    request.id = TransferId(id);
    request.uid = Uid(kMallory);
    request.destination_node = peer;
    request.source = {"", "a", 0, 1, {}};
    if (pieces > 0) {
      const std::vector<StridedRange> ranges(pieces, StridedRange{0, 1, 0, 1});
      auto layout = Layout::Make(ranges, "source");
      REQUIRE_OK(layout);
      request.ranges = std::make_shared<const Layout>(std::move(*layout));
    }
    return east.Ask<Reservation>([&](ClientApi&, auto reply) {
      east.engine().node().Reserve(peer, std::move(request), std::move(reply));
    });
  }
  void Grant(const std::string& to) {
    REQUIRE_OK(east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(alice, {{"", "a", 0, 1}, to, true, false, {}}, std::move(reply));
    }));
  }
  const Ledger& ledger() { return east.engine().ledger(); }
  // Asked where the ledger is written.
  uint64_t Bytes(std::optional<Charged> kind = {}) {
    const auto bytes = east.Ask<uint64_t>(
        [&](ClientApi&, auto reply) { reply(kind ? ledger().bytes(*kind) : ledger().bytes()); });
    REQUIRE_OK(bytes);
    return *bytes;
  }

  // Alice's, until it has ended.
  void AwaitLatest() {
    for (;;) {
      const auto page = east.Ask<Page<TransferInfo>>([&](ClientApi& api, auto reply) {
        api.ListTransfers(alice, {1, {}}, std::move(reply));
      });
      REQUIRE_OK(page);
      REQUIRE(page->items.size() == 1);
      if (IsFinal(page->items[0].state)) return;
      std::this_thread::yield();
    }
  }
  uint64_t Shared(const Owner& owner) {
    const auto bytes =
        east.Ask<uint64_t>([&](ClientApi&, auto reply) { reply(ledger().SharedBytes(owner)); });
    REQUIRE_OK(bytes);
    return *bytes;
  }

  EngineCluster cluster;
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
};

Status SeriesThatFails(EngineNode& node, const Principal& who, const std::string& text) {
  SeriesRequest request;
  request.source.file = "f";
  request.destination.buffer = "a";
  const auto series = node.Ask<TransferInfo>(
      [&](ClientApi& api, auto reply) { api.OpenSeries(who, request, std::move(reply)); });
  if (!series.ok()) return series.status();
  TransferRequest part = Request("a", "b");
  part.part_of = series->id;
  if (const auto moved = node.Copy(who, part); !moved.ok()) return moved.status();
  return node
      .Ask<TransferInfo>([&](ClientApi& api, auto reply) {
        api.EndSeries(who, {series->id, Status(Code::kCancelled, "R", text), {}}, std::move(reply));
      })
      .status();
}

}  // namespace

TEST_CASE("what a peer reserves is charged to it, and keeps nobody else from anything") {
  Rig rig(2 * kMiB);
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", 4096));
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "b", 4096));
  rig.Grant("1666@mallory");
  rig.Grant("1666@bob");
  Result<Reservation> last = rig.Reserve("mallory", "0", 0);
  size_t taken = 0;
  for (; last.ok() && taken < 100'000; ++taken) {
    last = rig.Reserve("mallory", std::to_string(taken + 1), 0);
  }
  CHECK(last.status().reason() == reasons::kQuota);
  CHECK(last.status().message().starts_with("node mallory uses "));
  CHECK(last.status().remedy().find("[limits] memory_per_user") != std::string::npos);
  CHECK(rig.Bytes(Charged::kTickets) <= 2 * kMiB);
  REQUIRE_OK(rig.Reserve("bob", "x", 0));
  REQUIRE_OK(rig.east.Copy(rig.alice, Request("a", "b")));
  // What it withdraws makes room.
  REQUIRE_OK(rig.east.Ask<FinishReply>([&](ClientApi&, auto reply) {
    rig.east.engine().node().Finish("mallory", {TransferId("7"), OkStatus()}, std::move(reply));
  }));
  REQUIRE_OK(rig.Reserve("mallory", "again", 0));
}

TEST_CASE("a reservation of very many ranges takes as much as it keeps") {
  Rig rig(24 * kMiB);
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", 4096));
  rig.Grant("1666@mallory");
  REQUIRE_OK(rig.Reserve("mallory", "1", 100'000));
  CHECK(rig.Bytes(Charged::kTickets) > 8 * kMiB);
  REQUIRE_OK(rig.Reserve("mallory", "2", 100'000));
  CHECK(rig.Reserve("mallory", "3", 100'000).status().reason() == reasons::kQuota);
  REQUIRE_OK(rig.Reserve("mallory", "4", 0));
}

TEST_CASE("a transfer of very many ranges takes as much as it keeps, until it has ended") {
  Rig rig(4 * kMiB);
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", kMiB));
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "b", kMiB));
  const auto start = [&](uint64_t pieces) {
    std::vector<RangePair> pairs;
    for (uint64_t i = 0; i < pieces; ++i) pairs.push_back({{3 * i, 1, 0, 1}, {5 * i, 1, 0, 1}});
    auto groups = GroupRanges(pairs, 1, 1);
    REQUIRE_OK(groups);
    return rig.east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.CreateTransfer(rig.alice, Request("a", "b"), *groups, std::move(reply));
    });
  };
  const Status large = start(100'000).status();
  CHECK(large.reason() == reasons::kQuota);
  CHECK(large.message().find("no room for") != std::string::npos);
  const auto small = start(10'000);
  REQUIRE_OK(small);
  CHECK(rig.east.Wait(rig.alice, small->id).state == TransferState::kSucceeded);
  // What moved them goes a moment after its end was told.
  while (rig.Bytes(Charged::kTransfers) + rig.Bytes(Charged::kTickets) > 0) {
    std::this_thread::yield();
  }
}

TEST_CASE("what has ended is remembered in bytes, and told in pages of bytes") {
  Rig rig(16 * kMiB);
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", 16));
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "b", 16));
  const uint64_t most = rig.ledger().ByteLimit(Charged::kHistory).each;
  CHECK(most == kMiB);
  constexpr size_t kSeries = 40;
  const std::string text(100'000, 'x');
  for (size_t i = 0; i < kSeries; ++i) REQUIRE_OK(SeriesThatFails(rig.east, rig.alice, text));
  CHECK(rig.Bytes(Charged::kHistory) <= most);
  CHECK(rig.Bytes(Charged::kHistory) > most / 2);

  PageRequest request{1000, {}};
  size_t told = 0;
  size_t pages = 0;
  do {
    const auto page = rig.east.Ask<Page<TransferInfo>>([&](ClientApi& api, auto reply) {
      api.ListTransfers(rig.alice, request, std::move(reply));
    });
    REQUIRE_OK(page);
    CHECK(page->items.size() <= 2);
    told += page->items.size();
    ++pages;
    request.token = page->next_token;
  } while (!request.token.empty());
  CHECK(told >= 5);
  CHECK(told < kSeries);
  CHECK(pages > 1);
  // The latest is there, whatever it took.
  const std::string longer(2 * kMiB, 'x');
  REQUIRE_OK(SeriesThatFails(rig.east, rig.alice, longer));
  REQUIRE_OK(rig.east.Copy(rig.alice, Request("a", "b")));
}

TEST_CASE("ends of transfers that nobody asks for leave room for more") {
  Rig rig(kMiB);
  constexpr uint64_t kBytes = 96 << 10;  // smaller ones are answered when they have ended
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", kBytes));
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "b", kBytes));
  uint64_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    REQUIRE_OK(rig.east.Start(rig.alice, Request("a", "b")));
    rig.AwaitLatest();
    most = std::max(most, rig.Bytes(Charged::kTransfers));
  }
  const uint64_t share = rig.ledger().ByteLimit(Charged::kTransfers).each;
  CHECK(most > share / 2);  // they were kept meanwhile
  CHECK(most < share / 4 * 3 + share / 16);
}

TEST_CASE("ends that nobody asks for leave a quarter of their user's share, whatever else it has") {
  Rig rig(kMiB);
  constexpr uint64_t kBytes = 96 << 10;
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", kBytes));
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "b", kBytes));
  const uint64_t share = rig.ledger().ByteLimit(Charged::kTransfers).each;
  const Owner alice = OwnerOf(rig.alice);
  for (int i = 0; rig.Shared(alice) < share / 2; ++i) {
    REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "more-" + std::to_string(i), 4096));
  }
  uint64_t most = 0;
  for (int i = 0; i < 500; ++i) {
    REQUIRE_OK(rig.east.Start(rig.alice, Request("a", "b")));
    rig.AwaitLatest();
    most = std::max(most, rig.Shared(alice));
  }
  CHECK(most > share / 2);
  CHECK(most < share / 4 * 3 + share / 16);
}

TEST_CASE("checksums of one user wait for few of another's, however many these are") {
  Rig rig(64 * kMiB);
  const Principal bob = rig.east.Attach(1001);
  constexpr uint64_t kBytes = 256 * kMiB;
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", kBytes));
  REQUIRE_OK(rig.east.CreateBuffer(bob, "b", 4096));
  constexpr size_t kSums = 40;
  size_t answered = 0;
  size_t before_bobs = 0;
  std::promise<void> all;
  const auto one_more = [&] {
    if (++answered == kSums + 1) all.set_value();
  };
  rig.east.engine().loop().Post([&] {
    ClientApi& api = rig.east.engine().client();
    Endpoint end;
    end.buffer = "a";
    for (size_t i = 0; i < kSums; ++i) {
      api.SumBuffer(rig.alice, {end}, [&](const Result<BufferSum>& sum) {
        CHECK(sum.ok());
        one_more();
      });
    }
    end.buffer = "b";
    api.SumBuffer(bob, {end}, [&](const Result<BufferSum>& sum) {
      CHECK(sum.ok());
      before_bobs = answered;
      one_more();
    });
  });
  all.get_future().wait();
  CHECK(before_bobs <= 1);
}

TEST_CASE("a sum is the same whether it is cut into turns or not") {
  Rig rig(64 * kMiB);
  constexpr uint64_t kBytes = 20 * kMiB + 12345;
  const auto sum = [&](uint64_t offset, uint64_t bytes) {
    const auto done = rig.east.Ask<BufferSum>([&](ClientApi& api, auto reply) {
      api.SumBuffer(rig.alice, {{"", "a", offset, bytes, {}}}, std::move(reply));
    });
    REQUIRE_OK(done);
    return done->value;
  };
  auto memory = rig.east.Register(rig.alice, "a", kBytes);
  REQUIRE_OK(memory);
  Fill(*memory, 5);
  const std::string whole = sum(0, kBytes);
  CHECK(whole == sum(0, kBytes));
  memory->data[kBytes - 1] ^= std::byte{1};
  CHECK(whole != sum(0, kBytes));
  memory->data[kBytes - 1] ^= std::byte{1};
  CHECK(whole == digest::HexOf(memory->data, kBytes));
  CHECK(sum(7, 0) == digest::HexOf("", 0));
}

TEST_CASE("blocks of a range have a sum each, wherever the turns end, and not too many do") {
  Rig rig(64 * kMiB);
  constexpr uint64_t kBytes = 20 * kMiB + 12345;
  auto memory = rig.east.Register(rig.alice, "a", kBytes);
  REQUIRE_OK(memory);
  Fill(*memory, 5);
  const auto sum = [&](uint64_t offset, uint64_t bytes, uint64_t block_bytes) {
    return rig.east.Ask<BufferSum>([&](ClientApi& api, auto reply) {
      api.SumBuffer(rig.alice, {{"", "a", offset, bytes, {}}, block_bytes}, std::move(reply));
    });
  };
  const std::string all(reinterpret_cast<const char*>(memory->data), kBytes);
  for (const uint64_t block : {kMiB, 3 * kMiB + 5, 64 * kMiB, uint64_t{0} - 1}) {
    INFO("blocks of " << block);
    const auto sums = sum(7, kBytes - 7, block);
    REQUIRE_OK(sums);
    CHECK(sums->value.empty());
    CHECK(sums->bytes == kBytes - 7);
    std::vector<std::string> expected;
    for (uint64_t at = 7; at < kBytes; at += std::min(block, kBytes - at)) {
      expected.push_back(digest::HexOf(&all[at], std::min(block, kBytes - at)));
    }
    CHECK(sums->blocks == expected);
  }
  const auto exact = sum(0, 2 * kMiB, kMiB);
  REQUIRE_OK(exact);
  CHECK(exact->blocks.size() == 2);
  const auto empty = sum(0, 0, kMiB);
  REQUIRE_OK(empty);
  CHECK(empty->blocks.empty());
  REQUIRE_OK(sum(0, kMaxSummedBlocks, 1));
  CHECK(sum(0, kMaxSummedBlocks + 1, 1).status().reason() == reasons::kBadArgument);
}

TEST_CASE("what a payer had is its no more once it is given back") {
  Rig rig(16 * kMiB);
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", 4096));
  rig.Grant("1666@mallory");
  const uint64_t before = rig.Bytes();
  const Principal bob = rig.east.Attach(1001);
  REQUIRE_OK(rig.east.Register(bob, "r", 4096));
  for (int i = 0; i < 10; ++i) REQUIRE_OK(rig.Reserve("mallory", std::to_string(i), 1000));
  CHECK(rig.Bytes() > before);
  rig.east.Detach(bob);
  for (int i = 0; i < 10; ++i) {
    REQUIRE_OK(rig.east.Ask<FinishReply>([&](ClientApi&, auto reply) {
      rig.east.engine().node().Finish("mallory", {TransferId(std::to_string(i)), OkStatus()},
                                      std::move(reply));
    }));
  }
  CHECK(rig.Bytes() == before);
}
}  // namespace payers_test
