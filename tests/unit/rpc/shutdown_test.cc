// Ends of a server: with nothing lost, nothing leaked and nobody waiting for ever.
#include <atomic>
#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "onecopy/reasons.h"
#include "tests/unit/rpc/rpc_rig.h"
#include "tests/unit/rpc/samples.h"

namespace shutdown_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

Status AskForNode(const ApiRig& rig) {
  v1::Node node;
  const auto context = rig.Context();
  return FromGrpc(rig.nodes->GetNode(context.get(), {}, &node));
}

}  // namespace

TEST_CASE("stopping fails the calls in progress, and drops late answers") {
  ApiRig rig;
  rig.engine.Run([&] {
    rig.api.script.AnswerWith(SampleNode());
    rig.api.script.Hold();
  });
  std::vector<std::future<Status>> calls;
  for (int i = 0; i < 10; ++i) {
    calls.push_back(std::async(std::launch::async, [&] { return AskForNode(rig); }));
  }
  rig.engine.Await([&] { return rig.api.script.held() == 10; });
  rig.server->Stop();
  for (auto& call : calls) {
    const Status status = call.get();
    CHECK(status.code() == Code::kUnavailable);
    CHECK(status.reason() == reasons::kDraining);
  }
  rig.engine.Run([&] { rig.api.script.Release(); });
  rig.server->Stop();
}

TEST_CASE("answers may come after the server itself is gone") {
  ApiRig rig;
  rig.engine.Run([&] {
    rig.api.script.AnswerWith(SampleNode());
    rig.api.script.Hold();
  });
  auto call = std::async(std::launch::async, [&] { return AskForNode(rig); });
  rig.engine.Await([&] { return rig.api.script.held() == 1; });
  testing::TempFolder folder;
  engine::Sessions sessions("east", 998);
  auto other = ApiServer::Start({folder / "api.sock", {}}, rig.engine.loop(), rig.api, sessions);
  REQUIRE_OK(other);
  rig.server = std::move(*other);  // ends the first
  CHECK(call.get().reason() == reasons::kDraining);
  rig.engine.Run([&] { rig.api.script.Release(); });
}

TEST_CASE("stopping ends watches, and tells the engine") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.first_update = SampleTransfer(); });
  rig.engine.Run([&] { rig.api.first_update->state = TransferState::kRunning; });
  v1::WatchTransferRequest request;
  request.set_id("t-1");
  const auto context = rig.Context();
  const auto reader = rig.transfers->WatchTransfer(context.get(), request);
  v1::Transfer transfer;
  REQUIRE(reader->Read(&transfer));
  rig.engine.Await([&] { return rig.api.watches.size() == 1; });
  rig.server->Stop();
  CHECK_FALSE(reader->Read(&transfer));
  CHECK(FromGrpc(reader->Finish()).reason() == reasons::kDraining);
  rig.engine.Await([&] { return rig.api.watches.empty(); });
}

TEST_CASE("stopping waits only a little for clients that do not read") {
  ApiRig rig;
  v1::WatchTransferRequest request;
  request.set_id("t-1");
  const auto context = rig.Context();
  const auto reader = rig.transfers->WatchTransfer(context.get(), request);
  rig.engine.Await([&] { return rig.api.watches.size() == 1; });
  TransferInfo transfer = SampleTransfer();
  transfer.state = TransferState::kRunning;
  for (int i = 0; i < 500; ++i) {
    transfer.receipt.evidence["key " + std::to_string(i)] = std::string(4000, 'e');
  }
  for (int i = 0; i < 20; ++i) {
    rig.engine.Run([&] {
      for (auto& [id, update] : rig.api.watches) update(transfer);
    });
  }
  rig.server->Stop();
  rig.engine.Await([&] { return rig.api.watches.empty(); });
  v1::Transfer update;
  while (reader->Read(&update)) {
  }
  CHECK_FALSE(reader->Finish().ok());  // the watch has been cut off, which is no end of a transfer
}

TEST_CASE("an engine that stops first leaves no call without an answer") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.Hold(); });
  auto held = std::async(std::launch::async, [&] { return AskForNode(rig); });
  rig.engine.Await([&] { return rig.api.script.held() == 1; });
  rig.engine.Stop();
  const Status late = AskForNode(rig);
  CHECK(late.code() == Code::kUnavailable);
  CHECK(late.reason() == reasons::kDraining);
  rig.server->Stop();
  CHECK(held.get().reason() == reasons::kDraining);
}

TEST_CASE("nobody can connect to a server that has stopped") {
  ApiRig rig;
  rig.server->Stop();
  const Status status = AskForNode(rig);
  CHECK(status.code() == Code::kUnavailable);
}

TEST_CASE("servers end well under calls from all sides, at any moment") {
  for (int round = 0; round < 20; ++round) {
    ApiRig rig;
    rig.engine.Run([&] {
      rig.api.script.AnswerWith(SampleNode());
      rig.api.first_update = SampleTransfer();
      rig.api.first_update->state = TransferState::kRunning;
    });
    std::atomic<bool> stop{false};
    std::atomic<int> answered{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        while (!stop) {
          if (AskForNode(rig).ok()) ++answered;
          v1::WatchTransferRequest request;
          request.set_id("t-1");
          const auto context = rig.Context();
          const auto reader = rig.transfers->WatchTransfer(context.get(), request);
          v1::Transfer transfer;
          reader->Read(&transfer);
          context->TryCancel();
          [[maybe_unused]] const grpc::Status status = reader->Finish();
        }
      });
    }
    while (answered < 10 * round) std::this_thread::yield();
    rig.server->Stop();
    stop = true;
    for (std::thread& client : clients) client.join();
    CHECK(answered >= 10 * round);
    rig.engine.Await([&] { return rig.api.watches.empty(); });
    CHECK(AskForNode(rig).code() == Code::kUnavailable);
  }
}

TEST_CASE("health is SERVING until the server drains, also for those who watch") {
  using Response = grpc::health::v1::HealthCheckResponse;
  ApiRig rig;
  const auto health = grpc::health::v1::Health::NewStub(rig.channel);
  const auto check = [&](const std::string& service) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    Response response;
    const auto context = ApiRig::Context("");  // no session is needed
    const grpc::Status status = health->Check(context.get(), request, &response);
    if (!status.ok()) return "error " + std::to_string(status.error_code());
    return Response::ServingStatus_Name(response.status());
  };
  CHECK(check("") == "SERVING");
  for (const std::string name : {"Transfer", "Buffer", "Node"}) {
    CHECK(check("onecopy.v1." + name + "Service") == "SERVING");
  }
  CHECK(check("onecopy.v1.PeerService") == "error 5");

  const auto context = ApiRig::Context("");
  const auto watch = health->Watch(context.get(), {});
  grpc::health::v1::HealthCheckRequest stranger;
  stranger.set_service("no.such.Service");
  const auto other_context = ApiRig::Context("");
  const auto other = health->Watch(other_context.get(), stranger);
  Response response;
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Response::SERVING);
  REQUIRE(other->Read(&response));
  CHECK(response.status() == Response::SERVICE_UNKNOWN);
  rig.server->Drain();
  REQUIRE(watch->Read(&response));
  CHECK(response.status() == Response::NOT_SERVING);
  CHECK(check("") == "NOT_SERVING");
  rig.server->Stop();
  CHECK_FALSE(watch->Read(&response));
  CHECK_FALSE(other->Read(&response));
  CHECK(watch->Finish().error_code() == grpc::StatusCode::UNAVAILABLE);
  [[maybe_unused]] const grpc::Status status = other->Finish();
}
}  // namespace shutdown_test
