// Which nodes may be peers of a daemon, and as whom their users count there.
#include "tests/cluster/pair.h"
#include "tests/cluster/users.h"
#include "tests/faults/hostile_peer.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"

namespace peer_identity_test {
namespace {

namespace v1 = onecopy::v1;
using namespace onecopy::testing;

// A node "mallory" that has a certificate of the authority that east's is of.
struct Certified {
  Authority authority;
  Authority::Files files = authority.Issue("mallory", "DNS:mallory");
  std::string east_tls = TlsOf("east");

  std::string TlsOf(const std::string& name) {
    const Authority::Files own = authority.Issue(name, "DNS:" + name);
    return "[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" + own.certificate +
           "\"\nkey = \"" + own.key + "\"\n";
  }
  std::shared_ptr<grpc::ChannelCredentials> Channel() const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(authority.ca());
    options.pem_private_key = ReadFile(files.key);
    options.pem_cert_chain = ReadFile(files.certificate);
    return grpc::SslCredentials(options);
  }
  std::shared_ptr<grpc::ServerCredentials> Server() const {
    grpc::SslServerCredentialsOptions options(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    options.pem_root_certs = ReadFile(authority.ca());
    options.pem_key_cert_pairs.push_back({ReadFile(files.key), ReadFile(files.certificate)});
    return grpc::SslServerCredentials(options);
  }
};

// Introduces the node, and waits until it has been greeted in return.
void Introduce(const Node& east, HostilePeer& caller, const HostileNode& node) {
  v1::HelloRequest request;
  node.Introduce(request.mutable_self());
  v1::HelloResponse response;
  const grpc::Status answered = caller.stub().Hello(caller.Context().get(), request, &response);
  INFO(answered.error_message());
  REQUIRE(answered.ok());
  east.WaitForPeer("mallory");
}

bool Sees(HostilePeer& peer, uint32_t uid, const std::string& buffer) {
  v1::GetPeerBufferRequest request;
  request.set_uid(uid);
  request.set_name(buffer);
  v1::Buffer found;
  return peer.stub().GetBuffer(peer.Context().get(), request, &found).ok();
}

}  // namespace

TEST_CASE("a certificate of the authority alone makes no peer") {
  Certified certified;
  const auto [configured, admitted] =
      GENERATE(table<std::string, bool>({{"", false},
                                         {"[peers.west]\naddress = \"127.0.0.1:1\"\n", false},
                                         {"[peers.\"gpu-*\"]\n", false},
                                         {"[peers.mallory]\n", true},
                                         {"[peers.\"mal*\"]\n", true}}));
  CAPTURE(configured);
  Node east("east", {.config = certified.east_tls + configured});
  HostilePeer mallory(east, "mallory", certified.Channel());
  const HostileNode node("mallory", "", certified.Server());
  v1::HelloRequest request;
  node.Introduce(request.mutable_self());
  v1::HelloResponse response;
  const grpc::Status answered = mallory.stub().Hello(mallory.Context().get(), request, &response);
  INFO(answered.error_message());
  CHECK(answered.ok() == admitted);
  if (!admitted) {
    CHECK(answered.error_code() == grpc::StatusCode::PERMISSION_DENIED);
    CHECK(answered.error_message().find("mallory") != std::string::npos);
    CHECK(response.self().version().empty());
    WaitUntil("it is logged",
              [&] { return east.Log().find("call of a node refused") != std::string::npos; });
    for (const Json& known : east.Do({"node", "ls"})) CHECK(known.at("name") != "mallory");
  }
  CheckServes(east);
}

TEST_CASE("a peer does not choose the domain that its uids are of") {
  Certified certified;
  Node east("east",
            {.config = "uid_domain = \"lab\"\n" + certified.east_tls + "[peers.mallory]\n"});
  const Kept kept(east);
  for (const char* says : {"lab", "", "other"}) {
    CAPTURE(says);
    HostilePeer mallory(east, "mallory", certified.Channel());
    const HostileNode node("mallory", says, certified.Server());
    Introduce(east, mallory, node);
    CHECK(east.Do({"node", "show", "mallory"}).at("uid_domain") == "");
    CHECK_FALSE(Sees(mallory, ::geteuid(), "kept"));
    v1::ReserveResponse reservation;
    CHECK_FALSE(mallory.Reserve(::geteuid(), {"kept", 0, 16}, "mallory", &reservation).ok());
    CHECK(reservation.ticket().empty());
  }
  kept.CheckUnchanged();
}

TEST_CASE("uid 0 of another node is root's equal where the configuration says so, and no more") {
  REQUIRE_ROOT();
  Certified certified;
  Node east("east", {.config = "uid_domain = \"lab\"\n" + certified.east_tls +
                               "[peers.mallory]\nuid_domain = \"lab\"\n"});
  OpenTo(east);
  const Kept kept(east);
  CommandAs(kOwner, east, {"buffer", "create", "theirs", "--size", "4096", "--memory", "host"});
  HostilePeer mallory(east, "mallory", certified.Channel());
  const HostileNode node("mallory", "other", certified.Server());
  Introduce(east, mallory, node);
  CHECK(Sees(mallory, 0, "kept"));
  CHECK_FALSE(Sees(mallory, 1001, "kept"));
  // An administrator sees all that there is.
  CHECK_FALSE(Sees(mallory, 0, "theirs"));
  CHECK(Sees(mallory, kOwner, "theirs"));
  v1::SumPeerBufferRequest sum;
  sum.mutable_range()->set_buffer("theirs");
  v1::SumBufferResponse response;
  CHECK_FALSE(mallory.stub().SumBuffer(mallory.Context().get(), sum, &response).ok());
}

TEST_CASE("on plain text a daemon's own user may call from this machine by any name but a peer's") {
  Node elsewhere("elsewhere");
  // "west" is configured at an address that is no loopback's: nobody here can prove to be it, but
  // nobody there either, so it is the network that is trusted.
  Node east("east", {.config = "insecure = true\n[peers.west]\naddress = \"192.0.2.1:7701\"\n"});
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  HostilePeer neighbour(east, "neighbour");
  CHECK_FALSE(Sees(neighbour, 1001, "a"));
  v1::HelloRequest request;
  request.mutable_self()->set_node("neighbour");
  request.mutable_self()->set_address(elsewhere.address());
  v1::HelloResponse response;
  CHECK(neighbour.stub().Hello(neighbour.Context().get(), request, &response).ok());
  CHECK(response.self().node() == "east");
  HostilePeer west(east, "west");
  CHECK_FALSE(Sees(west, ::geteuid(), "a"));
}
}  // namespace peer_identity_test
