// PeerService: every method from the proxy of a peer through its server and back.
#include "onecopy/reasons.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"

namespace peer_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Difference;

namespace {

struct Nodes {
  Nodes() { asking.Dial(serving.address()); }

  // Has the serving engine answer with `value`.
  template <typename T>
  void AnswerWith(T value) {
    serving.engine.Run([&] { serving.api.script.AnswerWith(std::move(value)); });
  }
  // What the serving engine was asked.
  template <typename... Ts>
  std::tuple<Ts...> Asked(const std::string& method) {
    std::tuple<Ts...> arguments;
    std::string asked;
    std::string caller;
    serving.engine.Run([&] {
      asked = serving.api.script.method();
      caller = serving.api.caller;
      arguments = serving.api.script.arguments<Ts...>();
    });
    CHECK(asked == method);
    CHECK(caller == "east");
    return arguments;
  }

  ServingNode serving;
  AskingNode asking;
};

// Asks with the value of a full `Request`, is answered with that of a full `Answer`, and finds
// every field of both at the other side.
template <typename Request, typename Answer, typename Method>
void CheckCall(const std::string& name, Method method) {
  Nodes nodes;
  const auto request = Sample<Request>();
  const auto answer = Sample<Answer>();
  using Value = std::remove_cvref_t<decltype(*Parse(answer))>;
  nodes.AnswerWith(Parsed(answer));
  const auto got = nodes.asking.Ask<Value>([&](engine::PeerApi& peer, engine::Reply<Value> reply) {
    (peer.*method)("east", Parsed(request), std::move(reply));
  });
  REQUIRE_OK(got);
  CHECK(Difference(Printed<Answer>(*got), answer).empty());
  using Asked = std::remove_cvref_t<decltype(*Parse(request))>;
  const auto asked = std::get<0>(nodes.Asked<Asked>(name));
  CHECK(Difference(Printed<Request>(asked), request).empty());
}

}  // namespace

TEST_CASE("Hello, Reserve, Start, Prepare and Finish keep every field both ways") {
  using engine::PeerApi;
  CheckCall<v1::HelloRequest, v1::HelloResponse>("Hello", &PeerApi::Hello);
  CheckCall<v1::ReserveRequest, v1::ReserveResponse>("Reserve", &PeerApi::Reserve);
  CheckCall<v1::StartRequest, v1::Transfer>("Start", &PeerApi::Start);
  CheckCall<v1::ConnectRequest, v1::ConnectResponse>("Connect", &PeerApi::Connect);
  CheckCall<v1::PrepareRequest, v1::PrepareResponse>("Prepare", &PeerApi::Prepare);
  CheckCall<v1::FinishRequest, v1::FinishResponse>("Finish", &PeerApi::Finish);
  CheckCall<v1::OpenProbeRequest, v1::OpenProbeResponse>("OpenProbe", &PeerApi::OpenProbe);
  CheckCall<v1::OpenRangeRequest, v1::OpenRangeResponse>("OpenRange", &PeerApi::OpenRange);
  CheckCall<v1::OpenPushRequest, v1::OpenPushResponse>("OpenPush", &PeerApi::OpenPush);
  CheckCall<v1::ImportMemoryRequest, v1::MemoryExport>("ImportMemory", &PeerApi::ImportMemory);
}

TEST_CASE("Recall tells of what") {
  Nodes nodes;
  Waiting<int> recalled;
  nodes.asking.engine.Run([&] {
    nodes.asking.peer->Recall("east", 0xfedcba9876543210, TransferId("t"),
                              [reply = recalled.Reply()](Status status) mutable {
                                if (!status.ok()) return reply(status);
                                reply(1);
                              });
  });
  REQUIRE_OK(recalled.Get());
  const auto [loan, id] = nodes.Asked<uint64_t, TransferId>("Recall");
  CHECK(loan == 0xfedcba9876543210);
  CHECK(id == TransferId("t"));
}

TEST_CASE("CloseProbe and CloseOpening tell which") {
  Nodes nodes;
  const auto check = [&](const std::string& name, auto method) {
    Waiting<int> closed;
    nodes.asking.engine.Run([&] {
      (nodes.asking.peer.get()->*method)("east", 0xfedcba9876543210,
                                         [reply = closed.Reply()](Status status) mutable {
                                           if (!status.ok()) return reply(status);
                                           reply(1);
                                         });
    });
    REQUIRE_OK(closed.Get());
    CHECK(std::get<0>(nodes.Asked<uint64_t>(name)) == 0xfedcba9876543210);
  };
  check("CloseProbe", &engine::PeerApi::CloseProbe);
  check("CloseOpening", &engine::PeerApi::CloseOpening);
}

TEST_CASE("Report, QueryTransfer and CancelTransfer keep every field both ways") {
  Nodes nodes;
  nodes.AnswerWith(SampleTransfer());
  Waiting<int> reported;
  nodes.asking.engine.Run([&] {
    nodes.asking.peer->Report("east", SampleTransfer(),
                              [reply = reported.Reply()](Status status) mutable {
                                if (!status.ok()) return reply(status);
                                reply(1);
                              });
  });
  REQUIRE_OK(reported.Get());
  const auto [transfer] = nodes.Asked<TransferInfo>("Report");
  CHECK(Difference(Printed<v1::Transfer>(transfer), Sample<v1::Transfer>()).empty());

  const auto queried = nodes.asking.Ask<TransferInfo>([](engine::PeerApi& peer, auto reply) {
    peer.Query("east", TransferId("t"), std::move(reply));
  });
  REQUIRE_OK(queried);
  CHECK(Difference(Printed<v1::Transfer>(*queried), Sample<v1::Transfer>()).empty());
  CHECK(std::get<0>(nodes.Asked<TransferId>("Query")) == TransferId("t"));

  const auto cancelled = nodes.asking.Ask<TransferInfo>([](engine::PeerApi& peer, auto reply) {
    peer.Cancel("east", 1000, TransferId("u"), std::move(reply));
  });
  REQUIRE_OK(cancelled);
  const auto [uid, id] = nodes.Asked<Uid, TransferId>("Cancel");
  CHECK(uid == 1000);
  CHECK(id == TransferId("u"));
}

TEST_CASE("CreateBuffer and DeleteBuffer keep every field both ways") {
  Nodes nodes;
  nodes.AnswerWith(SampleBuffer());
  const auto sample = Sample<v1::CreateBufferRequest>();
  CreateBufferRequest wanted;
  wanted.name = sample.name();
  wanted.bytes = sample.bytes();
  wanted.memory = sample.memory();
  wanted.request_id = sample.request_id();
  wanted.validate_only = sample.validate_only();
  const auto made = nodes.asking.Ask<BufferInfo>([&](engine::PeerApi& peer, auto reply) {
    peer.CreateBuffer("east", Uid(1000, "pid7"), wanted, std::move(reply));
  });
  REQUIRE_OK(made);
  CHECK(Difference(Printed<v1::Buffer>(*made), Sample<v1::Buffer>()).empty());
  const auto [uid, request] = nodes.Asked<Uid, CreateBufferRequest>("CreateBuffer");
  CHECK(uid == Uid(1000, "pid7"));
  CHECK(request.name == wanted.name);
  CHECK(request.bytes == wanted.bytes);
  CHECK(request.memory == wanted.memory);
  CHECK(request.request_id == wanted.request_id);
  CHECK(request.validate_only == wanted.validate_only);

  REQUIRE_OK(nodes.asking.Ask<bool>([](engine::PeerApi& peer, auto reply) {
    peer.DeleteBuffer("east", 1000, "weights", true,
                      [reply = std::move(reply)](const Status& status) mutable {
                        if (status.ok()) return reply(true);
                        reply(status);
                      });
  }));
  const auto [remover, name, force] = nodes.Asked<Uid, std::string, bool>("DeleteBuffer");
  CHECK(remover == 1000);
  CHECK(name == "weights");
  CHECK(force);
}

TEST_CASE("GetBuffer, ListBuffers and SumBuffer keep every field both ways") {
  Nodes nodes;
  nodes.AnswerWith(SampleBuffer());
  const auto got = nodes.asking.Ask<BufferInfo>([](engine::PeerApi& peer, auto reply) {
    peer.GetBuffer("east", 1000, "weights", std::move(reply));
  });
  REQUIRE_OK(got);
  CHECK(Difference(Printed<v1::Buffer>(*got), Sample<v1::Buffer>()).empty());
  const auto [uid, name] = nodes.Asked<Uid, std::string>("GetBuffer");
  CHECK(uid == 1000);
  CHECK(name == "weights");

  using Buffers = engine::Page<BufferInfo>;
  nodes.AnswerWith(Parsed(Sample<v1::ListBuffersResponse>()));
  const auto listed = nodes.asking.Ask<Buffers>([](engine::PeerApi& peer, auto reply) {
    peer.ListBuffers("east", 1001, {7, "token"}, std::move(reply));
  });
  REQUIRE_OK(listed);
  CHECK(Difference(Printed<v1::ListBuffersResponse>(*listed), Sample<v1::ListBuffersResponse>())
            .empty());
  const auto [lister, page] = nodes.Asked<Uid, engine::PageRequest>("ListBuffers");
  CHECK(lister == 1001);
  CHECK(page.size == 7);
  CHECK(page.token == "token");

  nodes.AnswerWith(BufferSum{"xxh3-128", "abc", 77, {"d", "e"}});
  const Endpoint range{"west", "weights", 4096, 8192};
  const auto sum = nodes.asking.Ask<BufferSum>([&](engine::PeerApi& peer, auto reply) {
    peer.SumBuffer("east", 1002, {range, 4096}, std::move(reply));
  });
  REQUIRE_OK(sum);
  CHECK(sum->algorithm == "xxh3-128");
  CHECK(sum->value == "abc");
  CHECK(sum->bytes == 77);
  CHECK(sum->blocks == std::vector<std::string>{"d", "e"});
  const auto [summer, asked] = nodes.Asked<Uid, SumRequest>("SumBuffer");
  CHECK(summer == 1002);
  CHECK(asked.range == range);
  CHECK(asked.block_bytes == 4096);
}

TEST_CASE("ListGrants keeps every field both ways") {
  Nodes nodes;
  using Grants = engine::Page<GrantInfo>;
  nodes.AnswerWith(Parsed(Sample<v1::ListGrantsResponse>()));
  const auto listed = nodes.asking.Ask<Grants>([](engine::PeerApi& peer, auto reply) {
    peer.ListGrants("east", 1003, {7, "token"}, std::move(reply));
  });
  REQUIRE_OK(listed);
  CHECK(Difference(Printed<v1::ListGrantsResponse>(*listed), Sample<v1::ListGrantsResponse>())
            .empty());
  const auto [uid, page] = nodes.Asked<Uid, engine::PageRequest>("ListGrants");
  CHECK(uid == Uid(1003));
  CHECK(page.size == 7);
  CHECK(page.token == "token");
}

TEST_CASE("ListExports keeps every field both ways") {
  Nodes nodes;
  using Exports = engine::Page<ExportInfo>;
  nodes.AnswerWith(Parsed(Sample<v1::ListExportsResponse>()));
  const auto listed = nodes.asking.Ask<Exports>([](engine::PeerApi& peer, auto reply) {
    peer.ListExports("east", 1003, {7, "token"}, std::move(reply));
  });
  REQUIRE_OK(listed);
  CHECK(Difference(Printed<v1::ListExportsResponse>(*listed), Sample<v1::ListExportsResponse>())
            .empty());
  const auto [uid, page] = nodes.Asked<Uid, engine::PageRequest>("ListExports");
  CHECK(uid == Uid(1003));
  CHECK(page.size == 7);
  CHECK(page.token == "token");
}

TEST_CASE("an answer to Connect says from which address it came") {
  for (const std::string host : {"127.0.0.1", "::1"}) {
    ServingNode serving(PlainText(), host);
    AskingNode asking;
    asking.Dial(serving.address());
    serving.engine.Run([&] { serving.api.script.AnswerWith(engine::ConnectReply{"yes", 5, ""}); });
    const auto reply = asking.Ask<engine::ConnectReply>([](engine::PeerApi& peer, auto answer) {
      peer.Connect("east", {"tcp", "offer"}, std::move(answer));
    });
    REQUIRE_OK(reply);
    CHECK(reply->host == host);
    CHECK(reply->answer == "yes");
    CHECK(reply->connection == 5);
  }
}

TEST_CASE("an address without a host becomes that from which the node speaks, both ways") {
  Nodes nodes;
  engine::HelloReply west = IAm("west");
  west.self.address = "0.0.0.0:7701";
  nodes.AnswerWith(west);
  const auto reply = nodes.asking.Ask<engine::HelloReply>([](engine::PeerApi& peer, auto answer) {
    engine::HelloRequest hello;
    hello.self.node = "east";
    hello.self.address = "[::]:7702";
    peer.Hello("east", hello, std::move(answer));
  });
  REQUIRE_OK(reply);
  CHECK(reply->self.address == "127.0.0.1:7701");
  CHECK(std::get<0>(nodes.Asked<engine::HelloRequest>("Hello")).self.address == "127.0.0.1:7702");
}

TEST_CASE("a peer's error arrives as it was, with every refusal") {
  Nodes nodes;
  const Status failure = Status(Code::kUnavailable, reasons::kDraining, "west drains", "wait")
                             .WithRefusals({{"tcp-direct", "R", "d", "r"}});
  nodes.serving.engine.Run([&] { nodes.serving.api.script.FailWith(failure); });
  const Status status = nodes.asking.Hello().status();
  CHECK(status.code() == failure.code());
  CHECK(status.reason() == failure.reason());
  CHECK(status.message() == failure.message());
  CHECK(status.remedy() == failure.remedy());
  CHECK(status.refusals() == failure.refusals());
}

TEST_CASE("a caller that does not say a node's name is refused") {
  ServingNode serving;
  const auto channel = grpc::CreateChannel(serving.address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::PeerService::NewStub(channel);
  for (const std::string name : {"", "-x", "a/b", "a b", "west"}) {  // which it is itself
    grpc::ClientContext context;
    if (!name.empty()) context.AddMetadata(kNodeMetadata, name);
    v1::HelloResponse response;
    const Status status = FromGrpc(stub->Hello(&context, Sample<v1::HelloRequest>(), &response));
    CHECK(status.code() == Code::kUnauthenticated);
  }
  CHECK(serving.engine.Get<size_t>([&] { return serving.api.script.count(); }) == 0);
}

TEST_CASE("the port is found where 0 is asked for, and an error where it is in use") {
  ServingNode serving;
  CHECK(serving.server->address().host == "127.0.0.1");
  CHECK(serving.server->address().port != 0);
  const auto second = PeerServer::Start({"west", serving.server->address(), PlainText(), {}, {}},
                                        serving.engine.loop(), serving.api);
  CHECK(second.status().code() == Code::kUnavailable);
  CHECK(second.status().message().find(serving.address()) != std::string::npos);
  CHECK_FALSE(second.status().remedy().empty());
}

TEST_CASE("a node that is not let in reaches no method, and hears why") {
  Nodes nodes;
  nodes.AnswerWith(IAm("west"));
  REQUIRE_OK(nodes.asking.Hello());
  nodes.serving.engine.Run([&] {
    CHECK(nodes.serving.asked == std::vector<std::pair<std::string, bool>>{{"east", true}});
    nodes.serving.admit = {Code::kPermissionDenied, reasons::kAccessDenied, "not among its peers"};
  });
  const auto refused = nodes.asking.Hello();
  CHECK(refused.status().code() == Code::kPermissionDenied);
  CHECK(refused.status().reason() == reasons::kAccessDenied);
  CHECK(refused.status().message().find("not among its peers") != std::string::npos);
}
}  // namespace peer_test
