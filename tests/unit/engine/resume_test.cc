// Transfers whose connection is lost on the way: what has arrived is not moved again.
#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/fragile.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kPayload = kFragilePayload;
constexpr uint64_t kGrain = uint64_t{1} << 20;

}  // namespace

TEST_CASE("what has arrived is not moved again after its connection was lost") {
  const std::string path = GENERATE("rdma-direct", "rdma-staged");
  CAPTURE(path);
  Fragile fragile;
  REQUIRE(fragile.Copy(path).state == TransferState::kSucceeded);
  std::fill_n(fragile.b.data, kPayload, std::byte{0});
  // More than are under way at a time. A chunk that was not lost may have come behind one that was.
  fragile.LoseGets(path == "rdma-direct" ? 28 : 64, 1);
  const TransferInfo copied = fragile.Copy(path);
  INFO(copied.error.ToString());
  REQUIRE(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong(fragile.b.data, kPayload, 1) == kPayload);
  CHECK(copied.receipt.path == path);
  REQUIRE(copied.receipt.attempts.size() == 2);
  const auto& [first, second] = std::pair(copied.receipt.attempts[0], copied.receipt.attempts[1]);
  CHECK(first.outcome == "LINK_DOWN");
  CHECK(first.bytes >= kGrain);
  CHECK(second.outcome == "SUCCEEDED");
  CHECK(second.bytes < kPayload);
  // It went on at a whole step of what had come without a gap.
  CHECK((kPayload - second.bytes) % kGrain == 0);
  CHECK(kPayload - second.bytes <= first.bytes);
  CHECK(copied.receipt.evidence.at("resumed").find(std::to_string(kPayload - second.bytes)) !=
        std::string::npos);
  for (const ExecutedStep& step : copied.receipt.steps) CHECK(step.bytes >= kPayload);
}

TEST_CASE("a transfer that gets on between its losses has as many tries as it needs") {
  Fragile fragile;
  fragile.reader->Set([number = std::make_shared<std::atomic<int>>(0)](FakeNics::Hooks& hooks) {
    hooks.on_get = [number](const LaneInfo&) -> Status {
      if (number->fetch_add(1) % 40 != 39) return OkStatus();
      return {Code::kUnavailable, reasons::kLinkDown, "lost by the test"};
    };
  });
  for (int i = 0; i < 3; ++i) {
    std::fill_n(fragile.b.data, kPayload, std::byte{0});
    const TransferInfo copied = fragile.Copy("rdma-staged");
    INFO(copied.error.ToString());
    REQUIRE(copied.state == TransferState::kSucceeded);
    CHECK(FirstWrong(fragile.b.data, kPayload, 1) == kPayload);
  }
}

TEST_CASE("a link that stays lost ends the transfer once its patience is over") {
  Fragile fragile(700ms);
  fragile.LoseGets(64, 1'000'000);
  const TransferInfo copied = fragile.Copy("rdma-staged");
  CHECK(copied.state == TransferState::kFailed);
  CHECK(copied.error.reason() == reasons::kLinkDown);
  // What was tried in vain is told a few times, not each time.
  CHECK(copied.receipt.attempts.size() <= 8);
  CHECK(copied.bytes_done >= kGrain);
  fragile.LoseGets(0, 0);
  CHECK(fragile.Copy("rdma-staged").state == TransferState::kSucceeded);
}

TEST_CASE("a source that begins elsewhere than it was asked to is not believed") {
  Fragile fragile(700ms);
  fragile.LoseGets(64, 1);
  fragile.cluster.ChangeReplies<PrepareReply>([](PrepareReply& reply) {
    if (reply.begins_at_bytes != 0) reply.begins_at_bytes += kGrain;
  });
  const TransferInfo copied = fragile.Copy("rdma-staged");
  CHECK(copied.state == TransferState::kFailed);
  INFO(copied.error.ToString());
  CHECK(copied.error.message().find("was asked for what follows byte") != std::string::npos);
}

TEST_CASE("nobody has received more of a payload than there is, or is sent more") {
  Fragile fragile;
  PrepareRequest request;
  request.id = TransferId("t");
  request.staged = true;
  request.chunk_bytes = 4096;
  const auto connected =
      fragile.AskEast(std::function([](PeerApi& east, Reply<ConnectReply> reply) {
        east.Connect("west", {"tcp", tcp::Encode(tcp::Offer{1})}, std::move(reply));
      }));
  REQUIRE_OK(connected);
  request.connection = connected->connection;
  struct Part {
    uint64_t arrived;
    uint64_t until;  // 0: the end
    bool served;
  };
  for (const auto& [arrived, until, served] : std::initializer_list<Part>{
           {kPayload - 1, 0, true},
           {kPayload, 0, false},
           {UINT64_MAX, 0, false},
           {0, 1, true},
           {kPayload - 1, kPayload, true},
           {0, kPayload + 1, false},
           {7, 7, false},
           {7, 6, false},
           {0, UINT64_MAX, false},
       }) {
    CAPTURE(arrived, until);
    const auto reserved =
        fragile.AskEast(std::function([&](PeerApi& east, Reply<Reservation> reply) {
          ReserveRequest asked;
          asked.id = request.id = TransferId("t" + std::to_string(request.channel));
          asked.uid = 1000;
          asked.destination_node = "west";
          asked.source = ParseEnd("east:a");
          east.Reserve("west", asked, std::move(reply));
        }));
    REQUIRE_OK(reserved);
    request.ticket = reserved->ticket;
    request.arrived_bytes = arrived;
    request.until_bytes = until;
    ++request.channel;
    const auto prepared =
        fragile.AskEast(std::function([&](PeerApi& east, Reply<PrepareReply> reply) {
          east.Prepare("west", request, std::move(reply));
        }));
    CHECK(prepared.ok() == served);
    if (prepared.ok()) CHECK(prepared->begins_at_bytes == arrived);
    if (!prepared.ok()) CHECK(prepared.status().reason() == reasons::kBadSize);
  }
}

TEST_CASE(
    "a destination that has everything may not read for ever, whatever it says of checksums") {
  Fragile fragile;
  const auto connected =
      fragile.AskEast(std::function([](PeerApi& east, Reply<ConnectReply> reply) {
        east.Connect("west", {"tcp", tcp::Encode(tcp::Offer{1})}, std::move(reply));
      }));
  REQUIRE_OK(connected);
  const auto reserved = fragile.AskEast(std::function([&](PeerApi& east, Reply<Reservation> reply) {
    ReserveRequest asked;
    asked.id = TransferId("t");
    asked.uid = 1000;
    asked.destination_node = "west";
    asked.source = ParseEnd("east:a@0+4096");
    east.Reserve("west", asked, std::move(reply));
  }));
  REQUIRE_OK(reserved);
  Status refused;
  int served = 0;
  for (; served < 200 && refused.ok(); ++served) {
    PrepareRequest request;
    request.ticket = reserved->ticket;
    request.id = TransferId("t");
    request.connection = connected->connection;
    request.channel = static_cast<ChannelId>(served + 1);
    refused = fragile
                  .AskEast(std::function([&](PeerApi& east, Reply<PrepareReply> reply) {
                    east.Prepare("west", request, std::move(reply));
                  }))
                  .status();
    if (!refused.ok()) break;
    FinishRequest finish{TransferId("t"), OkStatus(), false, 0, true};
    REQUIRE_OK(fragile.AskEast(std::function([&](PeerApi& east, Reply<FinishReply> reply) {
      east.Finish("west", finish, std::move(reply));
    })));
  }
  CHECK(served == 65);
  CHECK(refused.reason() == reasons::kAccessDenied);
}
