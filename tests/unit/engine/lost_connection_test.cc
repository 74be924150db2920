// Connections that one end still believes in: what becomes of the transfers that rest on them.
#include <algorithm>
#include <atomic>
#include <deque>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/unit/engine/between.h"
#include "tests/unit/engine/wild_reader.h"
#include "transport/link/tcp/frame.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

// West reads from east, over a link whose ends do what a test wants.
struct Lossy {
  std::shared_ptr<FakeNics> owner = std::make_shared<FakeNics>();
  std::shared_ptr<FakeNics> reader = std::make_shared<FakeNics>();
  Between nodes{
      1000, [this](const std::string& name, NodePlan& plan) {
        plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1, name == "east" ? owner : reader));
      }};

  static TransferRequest Params() {
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = "rdma-direct";
    return request;
  }
  TransferInfo Copy() {
    auto copied = nodes.west.Copy(nodes.in_west, Params());
    REQUIRE_OK(copied);
    return *copied;
  }
  // From now on so many gets end as those of a connection that is lost.
  void LoseGets(int count) {
    reader->Set([left = std::make_shared<std::atomic<int>>(count)](FakeNics::Hooks& hooks) {
      hooks.on_get = [left](const LaneInfo&) -> Status {
        if (left->fetch_sub(1) <= 0) return OkStatus();
        return {Code::kUnavailable, reasons::kLinkDown, "lost by the test"};
      };
    });
  }
  void CheckArrived() const { CHECK(FirstWrong(nodes.b.data, kBetweenBytes, 1) == kBetweenBytes); }
};

std::vector<std::string> Outcomes(const TransferInfo& transfer) {
  std::vector<std::string> outcomes;
  for (const Attempt& attempt : transfer.receipt.attempts) outcomes.push_back(attempt.outcome);
  return outcomes;
}

// A peer of east's that asks for what it likes.
class Asking {
 public:
  explicit Asking(EngineNode& node) : node_(node) {}

  template <typename T>
  Result<T> Ask(const std::function<void(PeerApi&, Reply<T>)>& call) {
    std::promise<Result<T>> answered;
    node_.engine().loop().Post([&] {
      call(node_.engine().node(), [&](Result<T> reply) { answered.set_value(std::move(reply)); });
    });
    return answered.get_future().get();
  }
  Result<Reservation> Reserve(const std::string& id) {
    ReserveRequest request;
    request.id = TransferId(id);
    request.uid = 1000;
    request.destination_node = "west";
    request.source = ParseEnd("east:a");
    return Ask<Reservation>(
        [&](PeerApi& east, auto reply) { east.Reserve("west", request, std::move(reply)); });
  }
  uint64_t Connect(const std::string& caller) {
    const auto made = Ask<ConnectReply>([&](PeerApi& east, auto reply) {
      east.Connect(caller, {"tcp", tcp::Encode(tcp::Offer{1})}, std::move(reply));
    });
    REQUIRE_OK(made);
    return made->connection;
  }
  Result<PrepareReply> Prepare(const std::string& caller, const std::string& ticket,
                               uint64_t connection, ChannelId channel) {
    PrepareRequest request;
    request.ticket = ticket;
    request.id = TransferId("t");
    request.connection = connection;
    request.channel = channel;
    return Ask<PrepareReply>(
        [&](PeerApi& east, auto reply) { east.Prepare(caller, request, std::move(reply)); });
  }
  Result<FinishReply> Finish(const Status& outcome, ChannelId channel) {
    return Ask<FinishReply>([&](PeerApi& east, auto reply) {
      east.Finish("west", {TransferId("t"), outcome, false, channel}, std::move(reply));
    });
  }

 private:
  EngineNode& node_;
};

}  // namespace

TEST_CASE("a connection that its owner no longer has is replaced, and the transfer goes through") {
  Lossy lossy;
  CHECK(Outcomes(lossy.Copy()) == std::vector<std::string>{"SUCCEEDED"});
  for (size_t gone = 1; gone <= 2; ++gone) {
    lossy.owner->Set([&](FakeNics::Hooks& hooks) { hooks.accepted_gone = gone; });
    const TransferInfo copied = lossy.Copy();
    CHECK(copied.state == TransferState::kSucceeded);
    CHECK(Outcomes(copied) == std::vector<std::string>{"LINK_DOWN", "SUCCEEDED"});
    CHECK(copied.receipt.attempts[0].bytes == 0);
    CHECK(copied.receipt.path == "rdma-direct");
    lossy.CheckArrived();
  }
}

TEST_CASE("a transfer whose connection is lost before it has moved anything begins anew") {
  Lossy lossy;
  REQUIRE(lossy.Copy().state == TransferState::kSucceeded);
  // The source may not have heard that the first try has ended.
  const bool heard = GENERATE(true, false);
  CAPTURE(heard);
  if (!heard) lossy.nodes.cluster.FailCalls("Finish");
  lossy.nodes.b.data[0] = std::byte{0};
  lossy.LoseGets(1);
  const TransferInfo copied = lossy.Copy();
  INFO(copied.error.ToString());
  CHECK(copied.state == TransferState::kSucceeded);
  CHECK(Outcomes(copied) == std::vector<std::string>{"LINK_DOWN", "SUCCEEDED"});
  CHECK(copied.bytes_done == kBetweenBytes);
  lossy.CheckArrived();
}

TEST_CASE("a connection that is lost again and again ends the transfer, and both ends let go") {
  Lossy lossy;
  lossy.LoseGets(1'000'000);
  const TransferInfo copied = lossy.Copy();
  CHECK(copied.state == TransferState::kFailed);
  CHECK(copied.error.reason() == reasons::kLinkDown);
  CHECK(Outcomes(copied) == std::vector<std::string>(5, "LINK_DOWN"));
  CHECK(lossy.nodes.east.Wait(lossy.nodes.in_east, copied.id).state == TransferState::kFailed);
  lossy.reader->Set([](FakeNics::Hooks& hooks) { hooks.on_get = nullptr; });
  CHECK(lossy.Copy().state == TransferState::kSucceeded);
}

TEST_CASE("a transfer that waits for its next try is cancelled as any other") {
  Lossy lossy;
  lossy.LoseGets(1'000'000);
  const auto started = lossy.nodes.west.Start(lossy.nodes.in_west, Lossy::Params());
  REQUIRE_OK(started);
  while (lossy.nodes.Get(started->id)->receipt.attempts.size() < 2) std::this_thread::yield();
  REQUIRE_OK(lossy.nodes.west.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.CancelTransfer(lossy.nodes.in_west, started->id, std::move(reply));
  }));
  const TransferInfo ended = lossy.nodes.west.Wait(lossy.nodes.in_west, started->id);
  CHECK(ended.state == TransferState::kCancelled);
  CHECK(lossy.nodes.east.Wait(lossy.nodes.in_east, started->id).state == TransferState::kCancelled);
}

TEST_CASE("of connections that one peer opens in excess, the oldest are closed") {
  Between nodes;
  std::deque<WildReader> readers;
  const auto open = [&] {
    return std::count_if(readers.begin(), readers.end(),
                         [](WildReader& one) { return !one.connection().closed(); });
  };
  for (int i = 0; i < 12; ++i) readers.emplace_back(nodes.cluster, "east", "west");
  while (open() > 8) std::this_thread::yield();
  CHECK(open() == 8);
  for (int i = 0; i < 4; ++i) CHECK(readers[i].connection().closed());
  CHECK_FALSE(readers[4].connection().closed());
  REQUIRE_OK(readers.back().Prepare("east:a", 1000, 4096));
}

TEST_CASE("a source prepares anew for the ticket's destination alone, until that has everything") {
  Between nodes;
  Asking asking(nodes.east);
  const auto reserved = asking.Reserve("t");
  REQUIRE_OK(reserved);
  const std::string& ticket = reserved->ticket;
  const uint64_t number = asking.Connect("west");
  const uint64_t norths = asking.Connect("north");
  CHECK(asking.Prepare("west", ticket, norths, 1).status().code() == Code::kNotFound);

  const auto first = asking.Prepare("west", ticket, number, 1);
  REQUIRE_OK(first);
  CHECK(asking.Prepare("north", ticket, norths, 2).status().code() == Code::kPermissionDenied);
  CHECK(asking.Prepare("west", "guessed", number, 2).status().code() == Code::kPermissionDenied);
  const auto second = asking.Prepare("west", ticket, asking.Connect("west"), 2);
  REQUIRE_OK(second);
  // What was said of the first attempt does not end the second.
  CHECK(asking.Finish({Code::kUnavailable, reasons::kLinkDown, "too late"}, 1).status().code() ==
        Code::kNotFound);
  const auto finished = asking.Finish(OkStatus(), 2);
  REQUIRE_OK(finished);
  CHECK(finished->failure.ok());
  CHECK(asking.Prepare("west", ticket, number, 3).status().code() == Code::kPermissionDenied);
}

TEST_CASE("a right that has ended since the first try is not there for the second") {
  Between nodes;
  Asking asking(nodes.east);
  const auto grant = nodes.Grant("a", 1001);
  REQUIRE_OK(grant);
  ReserveRequest request;
  request.id = TransferId("t");
  request.uid = 1001;
  request.destination_node = "west";
  request.source = ParseEnd("east:a");
  const auto reserved = asking.Ask<Reservation>(
      [&](PeerApi& east, auto reply) { east.Reserve("west", request, std::move(reply)); });
  REQUIRE_OK(reserved);
  const uint64_t number = asking.Connect("west");
  REQUIRE_OK(asking.Prepare("west", reserved->ticket, number, 1));
  REQUIRE_OK(nodes.InEast([&](ClientApi& api, StatusReply reply) {
    api.DeleteGrant(nodes.in_east, grant->id, std::move(reply));
  }));
  CHECK(asking.Prepare("west", reserved->ticket, number, 2).status().code() ==
        Code::kPermissionDenied);
}

TEST_CASE("that the source's owner has died since the first try is what the second one hears") {
  Between nodes;
  Asking asking(nodes.east);
  const auto reserved = asking.Reserve("t");
  REQUIRE_OK(reserved);
  const uint64_t number = asking.Connect("west");
  REQUIRE_OK(asking.Prepare("west", reserved->ticket, number, 1));
  nodes.east.Detach(nodes.in_east);
  const Status second = asking.Prepare("west", reserved->ticket, number, 2).status();
  CHECK(second.code() == Code::kAborted);
  CHECK(second.reason() == reasons::kOwnerDied);
}

TEST_CASE("a ticket is withdrawn by the node alone that reserved") {
  Between nodes;
  Asking asking(nodes.east);
  const auto reserved = asking.Reserve("t");
  REQUIRE_OK(reserved);
  const auto withdraw = [&](const std::string& caller) {
    return asking
        .Ask<FinishReply>([&](PeerApi& east, auto reply) {
          east.Finish(caller, {TransferId("t"), OkStatus()}, std::move(reply));
        })
        .status();
  };
  CHECK(withdraw("north").reason() == reasons::kTransferNotFound);
  CHECK(withdraw("west").ok());
  CHECK(withdraw("west").reason() == reasons::kTransferNotFound);
  CHECK(asking.Prepare("west", reserved->ticket, asking.Connect("west"), 1).status().code() ==
        Code::kPermissionDenied);
}

TEST_CASE("a part's ticket is good for the transfer alone that it is a part of") {
  Between nodes;
  Asking asking(nodes.east);
  ReserveRequest request;
  request.id = TransferId("whole");
  request.uid = 1000;
  request.destination_node = "west";
  request.parts = {{ParseEnd("east:a"), nullptr}, {ParseEnd("east:a"), nullptr}};
  const auto reserved = asking.Ask<Reservation>(
      [&](PeerApi& east, auto reply) { east.Reserve("west", request, std::move(reply)); });
  REQUIRE_OK(reserved);
  REQUIRE(reserved->parts.size() == 2);
  const uint64_t number = asking.Connect("west");
  const auto prepare = [&](size_t part, const std::string& series) {
    PrepareRequest prepared;
    prepared.ticket = reserved->parts[part].ticket;
    prepared.id = PartId(request.id, part);
    prepared.connection = number;
    prepared.channel = 1 + part;
    if (!series.empty()) {
      prepared.series = TransferInfo();
      prepared.series->id = TransferId(series);
      prepared.series->source.node = "east";
      prepared.series->destination.node = "west";
    }
    return asking
        .Ask<PrepareReply>(
            [&](PeerApi& east, auto reply) { east.Prepare("west", prepared, std::move(reply)); })
        .status();
  };
  const std::string wrong = GENERATE("", "other");
  CHECK(prepare(0, wrong).reason() == reasons::kBadArgument);
  REQUIRE_OK(prepare(1, "whole"));
}

TEST_CASE("what has arrived stays told while the source sums it up") {
  Between nodes;
  nodes.cluster.HoldCalls("Finish");
  TransferRequest request = Request("east:a", "west:b");
  request.checksum = true;
  const auto started = nodes.west.Start(nodes.in_west, request);
  REQUIRE_OK(started);
  // The run looks about ten times a second: it has looked since the bytes were there.
  TransferInfo seen;
  do {
    const auto now = nodes.Get(started->id);
    REQUIRE_OK(now);
    seen = *now;
  } while (seen.waits_for != "node east to sum up what it has sent");
  CHECK(seen.bytes_done == kBetweenBytes);
  CHECK(seen.state == TransferState::kRunning);
  nodes.cluster.ReleaseCalls();
  CHECK(nodes.west.Wait(nodes.in_west, started->id).state == TransferState::kSucceeded);
}
