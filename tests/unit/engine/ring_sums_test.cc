// Checksums of transfers by rings between two nodes, with the ring at either end.
#include <deque>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/between.h"
#include "tests/unit/engine/wild_reader.h"
#include "transport/digest/tree.h"

namespace ring_sums_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr uint64_t kBytes = 4096;

// A ring at either end, with a route from east to west, over a link that the test controls.
struct Summed {
  std::shared_ptr<FakeNics> nics_of_east = std::make_shared<FakeNics>();
  std::shared_ptr<FakeNics> nics_of_west = std::make_shared<FakeNics>();
  const bool at_west = GENERATE(true, false);
  Between nodes{1000, [this](const std::string& name, NodePlan& plan) {
                  plan.links.clear();
                  plan.links.push_back(MakeFakeRdma(
                      MakeTcpLink(name), 0, name == "west" ? nics_of_west : nics_of_east, "tcp"));
                }};
  EngineNode& here = at_west ? nodes.west : nodes.east;
  const Principal& who = at_west ? nodes.in_west : nodes.in_east;
  RingOf ring{here, who};
  uint64_t word = 0;

  Summed() {
    const auto route = ring.OpenRoute("east:a", "west:b");
    REQUIRE_OK(route);
    REQUIRE(route->sums);
    word = route->word;
  }
  ring::Ended Move(uint64_t bytes = kBytes) { return ring.Move(word, 64, 128, bytes, true); }
  Result<TransferInfo> Get(uint64_t number) {
    return here.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
      api.GetTransfer(who, ring.IdOf(number), std::move(reply));
    });
  }
};

}  // namespace

TEST_CASE("a ring's transfer between nodes has the checksum of both ends in its receipt") {
  Summed with;
  for (const uint64_t bytes : {uint64_t{1}, kBytes}) {
    const ring::Ended ended = with.Move(bytes);
    REQUIRE(ended.code == Code::kOk);
    const std::string sum = digest::TreeHexOf(with.nodes.a.data + 64, bytes);
    CHECK(digest::HexOf(ended.sum) == sum);
    CHECK(FirstWrong(with.nodes.b.data + 128, bytes, 1, 64) == bytes);
    const auto done = with.Get(ended.number);
    REQUIRE_OK(done);
    CHECK(done->receipt.checksum == ChecksumResult{"xxh3-128-tree", sum, true});
    CHECK(done->receipt.path == "tcp-direct");
  }
  // A transfer that does not ask for a checksum does not get one.
  const ring::Ended plain = with.ring.Move(with.word, 0, 0, kBytes);
  REQUIRE(plain.code == Code::kOk);
  CHECK_FALSE(with.Get(plain.number)->receipt.checksum);
}

TEST_CASE("a ring notices a byte that the wire changed, and its route goes on") {
  Summed with;
  with.nics_of_west->Set([](FakeNics::Hooks& hooks) {
    hooks.on_landed = [](const Span& span) { span.address()[0] ^= std::byte{1}; };
  });
  const ring::Ended wrong = with.Move();
  CHECK(wrong.code == Code::kDataLoss);
  CHECK(std::string(wrong.reason) == reasons::kChecksumMismatch);
  const auto failed = with.Get(wrong.number);
  REQUIRE_OK(failed);
  CHECK(failed->state == TransferState::kFailed);
  CHECK(failed->error.reason() == reasons::kChecksumMismatch);
  CHECK(failed->bytes_done == 0);
  with.nics_of_west->Set([](FakeNics::Hooks& hooks) { hooks.on_landed = nullptr; });
  CHECK(with.Move().code == Code::kOk);
}

TEST_CASE("a transfer fails if its source answers with nonsense in place of a checksum") {
  Summed with;
  if (!with.at_west) return;  // a source that asks sends its own
  const bool nonsense = GENERATE(true, false);
  with.nics_of_east->Set([nonsense](FakeNics::Hooks& hooks) {
    hooks.on_send = [nonsense](std::string& message) {
      if (nonsense) message = "nonsense";
      if (!nonsense && message.size() > 8) message[8] = 0;  // "not known", and a sum all the same
    };
  });
  const ring::Ended ended = with.Move();
  CHECK(ended.code == Code::kUnavailable);
  CHECK(std::string(ended.reason) == reasons::kLinkDown);
  with.nics_of_east->Set([](FakeNics::Hooks& hooks) { hooks.on_send = nullptr; });
  REQUIRE_OK(with.ring.OpenRoute("east:a", "west:b"));
}

TEST_CASE("removing the buffer ends a transfer that waits for a checksum") {
  Summed with;
  if (!with.at_west) return;
  with.nics_of_east->Set([](FakeNics::Hooks& hooks) {
    hooks.on_send = [](std::string& message) { message[0] ^= 1; };  // of another one
  });
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(with.word, 0, 0, kBytes, &number, true));
  while (FirstWrong(with.nodes.b.data, kBytes, 1) != kBytes) std::this_thread::yield();
  REQUIRE_OK(Between::In(with.nodes.west, [&](ClientApi& api, StatusReply reply) {
    api.DeleteBuffer(with.nodes.in_west, "", "b", false, std::move(reply));
  }));
  ring::Ended ended;
  while (!with.ring.end().Reap(&ended)) with.ring.end().Sleep(std::chrono::seconds(1));
  CHECK(ended.number == number);
  CHECK(ended.code != Code::kOk);
}

TEST_CASE("losing the connection ends a transfer that waits for a checksum") {
  Summed with;
  if (!with.at_west) return;
  with.nics_of_east->Set([](FakeNics::Hooks& hooks) {
    hooks.on_send = [](std::string& message) { message[0] ^= 1; };
  });
  uint64_t number = 0;
  REQUIRE(with.ring.end().Submit(with.word, 0, 0, kBytes, &number, true));
  while (FirstWrong(with.nodes.b.data, kBytes, 1) != kBytes) std::this_thread::yield();
  // East closes the oldest connection of a peer that opens too many; both stay connected.
  std::deque<WildReader> readers;
  for (int i = 0; i < 9; ++i) readers.emplace_back(with.nodes.cluster, "east", "west");
  ring::Ended ended;
  while (!with.ring.end().Reap(&ended)) with.ring.end().Sleep(std::chrono::seconds(1));
  CHECK(ended.code != Code::kOk);
}

}  // namespace ring_sums_test
