// Peers that speak another version, or are not who they should be.
#include <grpcpp/grpcpp.h>

#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/peer.grpc.pb.h"
#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace protocol_test {
namespace {

namespace v1 = onecopy::v1;
using namespace onecopy::testing;

constexpr char kQuick[] = "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n";

// A daemon of the far future, called "west". It understands nothing but Hello.
class FutureNode final : public v1::PeerService::Service {
 public:
  FutureNode() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
  }
  ~FutureNode() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void Introduce(v1::Introduction* self) const {
    self->set_node("west");
    self->set_boot_id("future");
    self->set_protocol_min(99);
    self->set_protocol_max(99);
    self->set_version("99.0");
    self->set_address(address());
  }
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override {
    Introduce(response->mutable_self());
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Json Listed(const Node& node, const std::string& name) {
  for (const Json& each : node.Do({"node", "ls"})) {
    if (each.at("name") == name) return each;
  }
  return nullptr;
}

// Nothing goes to it nor comes from it, and each refusal says why.
void CheckShunned(const Node& east, const std::string& why) {
  const Json west = Listed(east, "west");
  REQUIRE(west.is_object());
  CHECK(west.at("state") == "INCOMPATIBLE");
  CHECK(west.at("reason") == "PEER_INCOMPATIBLE");
  CHECK(west.at("detail").get<std::string>().find(why) != std::string::npos);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"cp", "kept", "west:b"},
                                                {"cp", "west:b", "kept"},
                                                {"explain", "kept", "west:b"},
                                                {"buffer", "ls", "west"}}) {
    const CommandResult refused = east.Run(words);
    CheckRefusedNaming(refused, 5, "UNAVAILABLE", "PEER_INCOMPATIBLE", why);
    CHECK(RemedyOf(refused) != "");
  }
}

}  // namespace

TEST_CASE("a peer of another protocol version is shown as incompatible, and nothing moves") {
  const FutureNode west;
  Node east("east", {.peers = {"west=" + west.address()}, .config = kQuick});
  const Kept kept(east);
  east.WaitForPeer("west", "INCOMPATIBLE");
  CheckShunned(east, "99 to 99");
  const CommandResult bench =
      RunCommand("onecopy-bench", {"run", "--peer", "west", "--run-dir", east.run_dir()});
  CHECK(bench.exit_status == 5);
  CHECK(bench.err.find("99 to 99") != std::string::npos);
  CHECK(bench.out.empty());
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a node of another protocol version that calls is known for what it is") {
  const FutureNode west;
  Node east("east", {.config = kQuick});
  const Kept kept(east);
  const auto stub = v1::PeerService::NewStub(
      grpc::CreateChannel(east.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("onecopy-node", "west");
  v1::HelloRequest request;
  west.Introduce(request.mutable_self());
  v1::HelloResponse response;
  const grpc::Status answered = stub->Hello(&context, request, &response);
  REQUIRE(answered.ok());  // so that the caller can tell its user, too
  CHECK(response.self().protocol_max() < 99);
  east.WaitForPeer("west", "INCOMPATIBLE");
  CheckShunned(east, "99 to 99");
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a peer that is somebody else is not taken for the one that was named") {
  Node north("north");
  Node east("east", {.peers = {"west=" + north.address()}, .config = kQuick});
  const Kept kept(east);
  const Kept in_north(north);
  east.WaitForPeer("west", "INCOMPATIBLE");
  CheckShunned(east, "\"north\"");
  in_north.CheckUnchanged();
  kept.CheckUnchanged();
  CheckServes(east);
  CheckServes(north);
}

TEST_CASE("calls that say nobody's name, this node's, or nonsense are refused") {
  Node east("east");
  const auto stub = v1::PeerService::NewStub(
      grpc::CreateChannel(east.address(), grpc::InsecureChannelCredentials()));
  for (const std::string name : {"", "east", "a b", "-"}) {
    INFO("name \"" << name << "\"");
    grpc::ClientContext context;
    if (!name.empty()) context.AddMetadata("onecopy-node", name);
    v1::HelloRequest request;
    request.mutable_self()->set_node(name);
    v1::HelloResponse response;
    const grpc::Status answered = stub->Hello(&context, request, &response);
    CHECK(answered.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(answered.error_message() != "");
  }
  CHECK(east.Do({"node", "ls"}).size() == 1);
  CheckServes(east);
}

TEST_CASE("tokens, tickets and connections that nobody gave open nothing") {
  Survivors nodes;
  const auto credentials = grpc::InsecureChannelCredentials();
  const auto api = v1::BufferService::NewStub(
      grpc::CreateChannel("unix:" + nodes.east.run_dir() + "/api.sock", credentials));
  for (const std::string& token : {std::string(), std::string("guess"), std::string(10'000, 't')}) {
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("onecopy-session", token);
    v1::ListBuffersResponse response;
    const grpc::Status answered = api->ListBuffers(&context, {}, &response);
    CHECK(answered.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(response.buffers_size() == 0);
  }
  const auto peer =
      v1::PeerService::NewStub(grpc::CreateChannel(nodes.east.address(), credentials));
  struct Guess {
    std::string ticket;
    bool in_place = false;  // of memory that was lent, rather than over a connection
    grpc::StatusCode refused;
  };
  for (const Guess& guess :
       {Guess{"guess", true, grpc::StatusCode::PERMISSION_DENIED},
        Guess{"guess", false, grpc::StatusCode::NOT_FOUND},  // no such connection
        Guess{std::string(10'000, 't'), true, grpc::StatusCode::INVALID_ARGUMENT},
        Guess{std::string(10'000, 't'), false, grpc::StatusCode::INVALID_ARGUMENT}}) {
    grpc::ClientContext context;
    context.AddMetadata("onecopy-node", "west");
    v1::PrepareRequest request;
    request.set_ticket(guess.ticket);
    request.set_transfer_id("guess");
    if (guess.in_place) {
      request.set_loan(1);
    } else {
      request.set_connection(1);
      request.set_channel(1);
    }
    v1::Transfer& transfer = *request.mutable_transfer();
    transfer.set_id("guess");
    transfer.set_state(v1::RUNNING);
    transfer.set_role(v1::DESTINATION);
    transfer.set_owner("0@west");
    transfer.mutable_create_time();
    for (v1::Endpoint* end : {transfer.mutable_source(), transfer.mutable_destination()}) {
      end->set_node(end == &transfer.source() ? "east" : "west");
      end->set_buffer("kept");
    }
    v1::PrepareResponse response;
    const grpc::Status answered = peer->Prepare(&context, request, &response);
    INFO(answered.error_message());
    CHECK(answered.error_code() == guess.refused);
    CHECK(response.lent_bytes() == 0);
  }
  nodes.Check();
}
}  // namespace protocol_test
