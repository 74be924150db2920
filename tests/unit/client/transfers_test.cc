#include <thread>

#include "client/lib/calls/wire.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/transfer.pb.h"
#include "tests/support/catch.h"
#include "tests/unit/client/client_fixture.h"

namespace transfers_test {
using onecopy::Client;
using onecopy::Code;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;

namespace {

struct TransfersFixture : onecopy::testing::ClientFixture {
  TransfersFixture() {
    daemon.AddBuffer("east", "a", 1000);
    daemon.AddBuffer("west", "b", 2000);
  }

  static TransferRequest Request() {
    TransferRequest request;
    request.source = {"", "a", {}, {}};
    request.destination = {"west", "b", 100, {}};
    return request;
  }
};

}  // namespace

TEST_CASE("a transfer runs to its end and brings its receipt") {
  TransfersFixture f;
  f.daemon.SetBytes("east", "a", std::string(1000, 'x'));
  TransferRequest request = TransfersFixture::Request();
  request.policy = {
      .path_glob = "tcp-*", .at_most_copies = 4, .link = "tcp", .allow_emulated = true};
  request.checksum = true;
  request.deadline = std::chrono::milliseconds(1500);
  std::vector<TransferState> states;
  const auto done = f.client.RunTransfer(
      request, [&](const TransferInfo& update) { states.push_back(update.state); });
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  REQUIRE_OK(onecopy::OutcomeOf(*done));
  REQUIRE_FALSE(states.empty());
  CHECK(states.back() == TransferState::kSucceeded);
  CHECK(done->source.ToString() == "east:a@0+1000");
  CHECK(done->destination.ToString() == "west:b@100+1000");
  CHECK(done->bytes_done == 1000);
  CHECK(done->role == onecopy::TransferRole::kSource);
  CHECK(done->receipt.path == "tcp-direct");
  CHECK(done->receipt.copies() == 3);
  CHECK(done->receipt.steps[1].step.loopback);
  CHECK(done->receipt.link == "tcp");
  CHECK(done->receipt.steps[1].bytes == 1000);
  REQUIRE_FALSE(done->receipt.lanes.empty());
  uint64_t carried = 0;
  for (const onecopy::LaneBytes& lane : done->receipt.lanes) carried += lane.bytes;
  CHECK(carried == 1000);
  CHECK_FALSE(done->receipt.key.empty());
  REQUIRE_FALSE(done->receipt.refused.empty());
  for (const onecopy::Refusal& refusal : done->receipt.refused) {
    CHECK_FALSE(refusal.reason.empty());
    CHECK_FALSE(refusal.detail.empty());
  }
  CHECK(done->receipt.attempts[0].outcome == "SUCCEEDED");
  CHECK_FALSE(done->receipt.evidence.empty());
  REQUIRE(done->receipt.checksum.has_value());
  CHECK(done->receipt.checksum->verified);
  CHECK(f.daemon.Bytes("west", "b").substr(100, 1000) == std::string(1000, 'x'));
}

TEST_CASE("a request says what its caller wants, and no more") {
  TransferRequest request = TransfersFixture::Request();
  request.policy = {
      .path_glob = "tcp-*", .at_most_copies = 4, .link = "tcp", .allow_emulated = true};
  request.checksum = true;
  request.deadline = std::chrono::milliseconds(1500);
  onecopy::v1::CreateTransferRequest sent;
  onecopy::codec::Print(request, &sent);
  CHECK(sent.policy().path_glob() == "tcp-*");
  CHECK(sent.policy().at_most_copies() == 4);
  CHECK(sent.policy().link() == "tcp");
  CHECK(sent.policy().allow_emulated());
  CHECK(sent.checksum());
  CHECK(sent.deadline().seconds() == 1);
  CHECK(sent.deadline().nanos() == 500'000'000);
  CHECK_FALSE(onecopy::client::ChosenOr(sent.request_id()).empty());
  CHECK_FALSE(sent.source().has_bytes());
}

TEST_CASE("a plan moves nothing, and what no path can do is refused with every reason") {
  TransfersFixture f;
  TransferRequest request = TransfersFixture::Request();
  const auto plan = f.client.PlanTransfer(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK(plan->copies() == 3);
  CHECK(plan->steps.size() == 3);
  CHECK_FALSE(plan->refused.empty());
  CHECK(f.daemon.transfers().empty());
  request.validate_only = true;
  const auto only_planned = f.client.RunTransfer(request);
  request.validate_only = false;
  REQUIRE_OK(only_planned);
  REQUIRE(only_planned->plan.has_value());
  CHECK(only_planned->plan->path == "tcp-direct");
  CHECK(only_planned->id.empty());
  CHECK(f.daemon.transfers().empty());
  request.policy.at_most_copies = 1;
  const Status unmet = f.client.PlanTransfer(request).status();
  CHECK(unmet.code() == Code::kFailedPrecondition);
  CHECK(unmet.reason() == onecopy::reasons::kPolicyUnmet);
  CHECK(unmet.refusals().size() >= 2);
}

TEST_CASE("a transfer that fails says why, under its name") {
  TransfersFixture f;
  f.daemon.FailTransfers(Status(Code::kUnavailable, onecopy::reasons::kDraining, "east ends"));
  const auto done = f.client.RunTransfer(TransfersFixture::Request());
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kFailed);
  const Status outcome = onecopy::OutcomeOf(*done);
  CHECK(outcome.code() == Code::kUnavailable);
  CHECK(outcome.reason() == onecopy::reasons::kDraining);
  CHECK(outcome.message() == "transfer " + done->id.str() + ": east ends");
}

TEST_CASE("a request that is refused starts nothing") {
  TransfersFixture f;
  TransferRequest request = TransfersFixture::Request();
  request.source.offset_bytes = 1001;
  CHECK(f.client.RunTransfer(request).status().reason() == onecopy::reasons::kRangeOutOfBuffer);
  request.source.buffer = "missing";
  CHECK(f.client.RunTransfer(request).status().reason() == onecopy::reasons::kBufferNotFound);
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("a stop while a transfer is awaited cancels it and waits for its end") {
  TransfersFixture f;
  f.daemon.Hold();
  std::stop_source stop;
  std::jthread stopper([&] {
    f.daemon.AwaitHeld(1);
    stop.request_stop();
  });
  const auto done = f.client.RunTransfer(TransfersFixture::Request(), {}, stop.get_token());
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kCancelled);
  CHECK(onecopy::OutcomeOf(*done).code() == Code::kCancelled);
  CHECK(f.daemon.transfers().at(0).state == TransferState::kCancelled);
}

TEST_CASE("a stop that came first starts nothing, and cancels what was started before") {
  TransfersFixture f;
  f.daemon.Hold();
  std::stop_source stop;
  stop.request_stop();
  CHECK(f.client.RunTransfer(TransfersFixture::Request(), {}, stop.get_token()).status().code() ==
        Code::kCancelled);
  CHECK(f.daemon.transfers().empty());
  const auto started = f.client.StartTransfer(TransfersFixture::Request());
  REQUIRE_OK(started);
  const auto done = f.client.AwaitTransfer(started->id, {}, stop.get_token());
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kCancelled);
}

TEST_CASE("a stop while a transfer is only watched leaves it alone") {
  TransfersFixture f;
  f.daemon.Hold();
  const auto started = f.client.StartTransfer(TransfersFixture::Request());
  REQUIRE_OK(started);
  f.daemon.AwaitRunning(1);
  std::stop_source stop;
  const auto watched = f.client.WatchTransfer(
      started->id, [&](const TransferInfo&) { stop.request_stop(); }, stop.get_token());
  CHECK(watched.status().code() == Code::kCancelled);
  CHECK(f.daemon.transfers().at(0).state == TransferState::kRunning);
  f.daemon.Release();
  const auto ended = f.client.WatchTransfer(started->id);
  REQUIRE_OK(ended);
  CHECK(ended->state == TransferState::kSucceeded);
}

TEST_CASE("another thread cancels what one waits for") {
  TransfersFixture f;
  f.daemon.Hold();
  const auto started = f.client.StartTransfer(TransfersFixture::Request());
  REQUIRE_OK(started);
  Status cancelled;
  std::thread other([&] { cancelled = f.client.CancelTransfer(started->id).status(); });
  const auto done = f.client.AwaitTransfer(started->id);
  other.join();
  REQUIRE_OK(cancelled);
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kCancelled);
}

TEST_CASE("an unconfirmed transfer ends the waiting, with that as its outcome") {
  TransfersFixture f;
  f.daemon.Hold();
  TransferRequest request = TransfersFixture::Request();
  request.deadline = std::chrono::milliseconds(500);
  const auto started = f.client.StartTransfer(request);
  REQUIRE_OK(started);
  // Nobody can say what becomes of it.
  f.daemon.cluster().Cut("east", "west");
  f.daemon.cluster().Cut("west", "east");
  const auto done = f.client.AwaitTransfer(started->id);
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kUnconfirmed);
  CHECK_FALSE(onecopy::IsFinal(done->state));
  CHECK(onecopy::OutcomeOf(*done).code() == Code::kDeadlineExceeded);
  CHECK(onecopy::OutcomeOf(*done).reason() == onecopy::reasons::kUnconfirmed);
}

TEST_CASE("transfers are listed newest first, over all pages") {
  TransfersFixture f;
  std::vector<std::string> started;
  for (int i = 0; i < 450; ++i) {
    const auto transfer = f.client.StartTransfer(TransfersFixture::Request());
    REQUIRE_OK(transfer);
    started.push_back(transfer->id.str());
  }
  const auto transfers = f.client.ListTransfers();
  REQUIRE_OK(transfers);
  REQUIRE(transfers->size() == 450);
  CHECK(transfers->front().id.str() == started.back());
  CHECK(transfers->back().id.str() == started.front());
  CHECK(f.client.GetTransfer(onecopy::TransferId(started[7])).ok());
  CHECK(f.client.GetTransfer(onecopy::TransferId("t0")).status().reason() ==
        onecopy::reasons::kTransferNotFound);
}

TEST_CASE("a daemon that goes away ends the waiting") {
  TempFolder dir;
  auto daemon = std::make_unique<ServedCluster>(dir.path());
  daemon->AddBuffer("east", "a", 10);
  daemon->AddBuffer("west", "b", 1000);
  daemon->Hold();
  Client client = onecopy::testing::ConnectTo(dir.path());
  std::jthread killer([&] {
    daemon->AwaitHeld(1);
    daemon.reset();
  });
  const auto done = client.RunTransfer(TransfersFixture::Request());
  CHECK(done.status().code() == Code::kUnavailable);
}

TEST_CASE("an endpoint is printed as it is typed") {
  CHECK(onecopy::Endpoint{"", "a", {}, {}}.ToString() == "a");
  CHECK(onecopy::Endpoint{"east", "a", 4096, {}}.ToString() == "east:a@4096");
  CHECK(onecopy::Endpoint{"east", "a", 4096, 64}.ToString() == "east:a@4096+64");
  CHECK(onecopy::Endpoint{"east", "a", {}, 64}.ToString() == "east:a@0+64");
}

TEST_CASE("of ranges only these are moved, in one transfer") {
  TransfersFixture f;
  f.daemon.SetBytes("east", "a", "0123456789");
  TransferRequest request = TransfersFixture::Request();
  request.ranges = {{{0, 2, 0, 1}, {10, 2, 0, 1}}, {{5, 1, 0, 1}, {0, 1, 0, 1}}};
  const auto plan = f.client.PlanTransfer(request);
  REQUIRE_OK(plan);
  const auto done = f.client.RunTransfer(request);
  REQUIRE_OK(done);
  REQUIRE_OK(onecopy::OutcomeOf(*done));
  CHECK(done->receipt.ranges == 2);
  CHECK(f.daemon.Bytes("west", "b").substr(100, 12) == "5" + std::string(9, '\0') + "01");
}
}  // namespace transfers_test
