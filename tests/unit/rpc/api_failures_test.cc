// Calls of api.sock that fail, and the socket itself.
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>

#include "onecopy/reasons.h"
#include "tests/unit/rpc/api_calls.h"
#include "tests/unit/rpc/samples.h"
#include "transport/os/sockets/unix_socket.h"

namespace api_failures_test {
using namespace onecopy;
using namespace onecopy::rpc;

TEST_CASE("an error arrives with reason, remedy and every refusal") {
  ApiRig rig;
  const Status failure = Status(Code::kFailedPrecondition, reasons::kPolicyUnmet,
                                "no path is acceptable", "accept more copies")
                             .WithRefusals({{"rdma-direct", "NO_RDMA_DEVICE", "none", "buy one"},
                                            {"tcp-direct", "MORE_COPIES", "3 > 1", ""}});
  rig.engine.Run([&] { rig.api.script.FailWith(failure); });
  const Status status = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CreateTransfer,
                                          Sample<v1::CreateTransferRequest>())
                            .status();
  CHECK(status.code() == failure.code());
  CHECK(status.reason() == failure.reason());
  CHECK(status.message() == failure.message());
  CHECK(status.remedy() == failure.remedy());
  CHECK(status.refusals() == failure.refusals());
}

TEST_CASE("an error with long refusals gets through gRPC's default limit on trailers") {
  ApiRig rig;
  std::vector<Refusal> refusals(
      11, {"rdma-direct", "NO_RDMA_DEVICE", std::string(3000, 'd'), std::string(3000, 'r')});
  const Status failure = Status(Code::kFailedPrecondition, reasons::kPolicyUnmet,
                                std::string(900, 'm'), std::string(900, 'r'))
                             .WithRefusals(refusals);
  rig.engine.Run([&] { rig.api.script.FailWith(failure); });
  const Status status = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CreateTransfer,
                                          Sample<v1::CreateTransferRequest>())
                            .status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kPolicyUnmet);
  CHECK(status.refusals().size() == 11);
}

TEST_CASE("calls without a session, or with one that has ended, are refused") {
  ApiRig rig;
  AnswerWith(rig, SampleNode());
  for (const std::string token : {"", "0123456789abcdef0123456789abcdef"}) {
    v1::Node node;
    const auto context = ApiRig::Context(token);
    const Status status = FromGrpc(rig.nodes->GetNode(context.get(), {}, &node));
    INFO(status.ToString());
    CHECK(status.code() == Code::kUnauthenticated);
    CHECK(status.reason() == reasons::kNoSession);
    CHECK_FALSE(status.remedy().empty());
  }
  CHECK(rig.engine.Get<size_t>([&] { return rig.api.script.count(); }) == 0);
}

TEST_CASE("a request that is no good does not reach the engine") {
  ApiRig rig;
  const Status status = Ask<v1::Transfer>(rig, *rig.transfers, &Transfers::CreateTransfer,
                                          v1::CreateTransferRequest())
                            .status();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kBadArgument);
  CHECK(status.message().find("source") != std::string::npos);
  CHECK(rig.engine.Get<size_t>([&] { return rig.api.script.count(); }) == 0);
}

TEST_CASE("an engine that drops a request has it answered") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.Hold(); });
  auto asked = std::async(std::launch::async, [&] {
    v1::GetNodeRequest request;
    return Ask<v1::Node>(rig, *rig.nodes, &Nodes::GetNode, request).status();
  });
  rig.engine.Await([&] { return rig.api.script.held() == 1; });
  rig.engine.Run([&] { rig.api.script.Drop(); });
  const Status status = asked.get();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == reasons::kDraining);
}

TEST_CASE("many calls at once are answered, each with its own") {
  ApiRig rig;
  AnswerWith(rig, SampleNode());
  rig.engine.Run([&] { rig.api.script.Hold(); });
  std::vector<std::future<bool>> calls;
  for (int i = 0; i < 50; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      return Ask<v1::Node>(rig, *rig.nodes, &Nodes::GetNode, v1::GetNodeRequest()).ok();
    }));
  }
  rig.engine.Await([&] { return rig.api.script.held() == 50; });
  rig.engine.Run([&] { rig.api.script.Release(); });
  for (auto& call : calls) CHECK(call.get());
}

TEST_CASE("everybody may connect to the socket, and a stale one is replaced") {
  const testing::TempFolder folder;
  EngineThread engine;
  FakeClientApi api;
  engine::Sessions sessions("east", 998);
  {
    auto stale = os::ListenUnix(folder / "api.sock", SOCK_STREAM, 0600, 1);
    REQUIRE_OK(stale);
  }
  auto server = ApiServer::Start({folder / "api.sock", {}}, engine.loop(), api, sessions);
  REQUIRE_OK(server);
  struct stat facts {};
  REQUIRE(::stat((folder / "api.sock").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0666);
  (*server)->Stop();
  CHECK_FALSE(std::filesystem::exists(folder / "api.sock"));
}

TEST_CASE("a socket that cannot be made fails the start with its path") {
  EngineThread engine;
  FakeClientApi api;
  engine::Sessions sessions("east", 998);
  const auto server =
      ApiServer::Start({"/no/such/folder/api.sock", {}}, engine.loop(), api, sessions);
  CHECK(server.status().message().find("/no/such/folder/api.sock") != std::string::npos);
}
}  // namespace api_failures_test
