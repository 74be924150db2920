// Mutual TLS between daemons: who is let in, and what is said to the others.

#include <filesystem>
#include <tuple>

#include "onecopy/reasons.h"
#include "tests/support/certificates.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"

namespace tls_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Authority;
using onecopy::testing::ReadFile;

namespace {

tls::Files With(const Authority& authority, const Authority::Files& files) {
  return {authority.ca(), files.certificate, files.key, ""};
}

std::shared_ptr<tls::Trust> Open(const tls::Files& files, const std::string& node) {
  auto trust = tls::Trust::Open(files, node);
  REQUIRE_OK(trust);
  return *trust;
}

Credentials Load(const tls::Files& files, const std::string& node) {
  return MutualTls(Open(files, node));
}

// Of a channel of a stranger's.
std::function<std::shared_ptr<grpc::ChannelCredentials>(std::shared_ptr<ServerProof>)> Always(
    const grpc::SslCredentialsOptions& options) {
  return
      [made = grpc::SslCredentials(options)](const std::shared_ptr<ServerProof>&) { return made; };
}

// What no node would start with, as a stranger may still present it.
Credentials Raw(const Authority& authority, const Authority::Files& files) {
  Credentials credentials;
  credentials.tls = true;
  grpc::SslCredentialsOptions channel;
  channel.pem_root_certs = ReadFile(authority.ca());
  channel.pem_private_key = ReadFile(files.key);
  channel.pem_cert_chain = ReadFile(files.certificate);
  credentials.channel = Always(channel);
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = channel.pem_root_certs;
  server.pem_key_cert_pairs.push_back({channel.pem_private_key, channel.pem_cert_chain});
  credentials.server = grpc::SslServerCredentials(server);
  return credentials;
}

// A serving node "west" whose engine knows itself.
std::unique_ptr<ServingNode> Serve(Credentials credentials) {
  auto node = std::make_unique<ServingNode>(std::move(credentials));
  node->engine.Run([&] { node->api.script.AnswerWith(IAm("west")); });
  return node;
}

Status Greet(const ServingNode& west, Credentials credentials, const std::string& caller = "east") {
  AskingNode asking(std::move(credentials));
  asking.Dial(west.address());
  return asking.Hello(caller).status();
}

void CheckNeverAsked(ServingNode& west) {
  CHECK(west.engine.Get<size_t>([&] { return west.api.script.count(); }) == 0);
}

}  // namespace

TEST_CASE("a call does not wait for an old attempt to shake hands") {
  Authority authority;
  AnswerAfterSilence(Load(With(authority, authority.Issue("east", "DNS:east")), "east"),
                     Load(With(authority, authority.Issue("west", "DNS:west")), "west"));
}

TEST_CASE("nodes with certificates of one authority, for their names, talk") {
  Authority authority;
  const auto west = Serve(Load(With(authority, authority.Issue("west", "DNS:west")), "west"));
  const auto east = authority.Issue("east", "DNS:other.example,DNS:east");
  REQUIRE_OK(Greet(*west, Load(With(authority, east), "east")));
  CHECK(west->engine.Get<std::string>([&] { return west->api.caller; }) == "east");
}

TEST_CASE("a name may also be a URI where a node calls") {
  Authority authority;
  const auto west = Serve(Load(With(authority, authority.Issue("west", "DNS:west")), "west"));
  REQUIRE_OK(Greet(*west, Raw(authority, authority.Issue("uri", "URI:onecopy://east"))));
  const auto longer = authority.Issue("longer", "URI:onecopy://east/x,URI:https://east");
  CHECK(Greet(*west, Raw(authority, longer)).reason() == reasons::kCertRejected);
}

TEST_CASE("a caller that says another name than its certificate is CERT_REJECTED") {
  Authority authority;
  const auto west = Serve(Load(With(authority, authority.Issue("west", "DNS:west")), "west"));
  const auto north = authority.Issue("north", "DNS:north");
  const Status status = Greet(*west, Load(With(authority, north), "north"), "east");
  CHECK(status.code() == Code::kUnauthenticated);
  CHECK(status.reason() == reasons::kCertRejected);
  CHECK(status.message().find("east") != std::string::npos);
  CHECK(status.remedy().find("DNS:east") != std::string::npos);
  // Neither a wildcard nor a common name without alternative names makes one "east".
  const auto wild = authority.Issue("wild", "DNS:*,DNS:*.east");
  CHECK(Greet(*west, Raw(authority, wild)).reason() == reasons::kCertRejected);
  const auto common = authority.Issue("east", "");
  CHECK(Greet(*west, Raw(authority, common)).reason() == reasons::kCertRejected);
  const auto capitals = authority.Issue("capitals", "DNS:East,URI:onecopy://EAST");
  CHECK(Greet(*west, Raw(authority, capitals)).reason() == reasons::kCertRejected);
  CheckNeverAsked(*west);
}

TEST_CASE("callers of another authority, without certificate or with an expired one are cut off") {
  Authority authority;
  Authority other;
  const auto west = Serve(Load(With(authority, authority.Issue("west", "DNS:west")), "west"));

  Credentials foreign = Raw(other, other.Issue("east", "DNS:east"));
  grpc::SslCredentialsOptions trusting;  // the server, but with a certificate that it does not
  trusting.pem_root_certs = ReadFile(authority.ca());
  const auto files = other.Issue("east2", "DNS:east");
  trusting.pem_private_key = ReadFile(files.key);
  trusting.pem_cert_chain = ReadFile(files.certificate);
  foreign.channel = Always(trusting);
  CHECK(Greet(*west, foreign).reason() == reasons::kPeerDown);

  Credentials bare;
  bare.tls = true;
  grpc::SslCredentialsOptions none;
  none.pem_root_certs = ReadFile(authority.ca());
  bare.channel = Always(none);
  CHECK(Greet(*west, bare).reason() == reasons::kPeerDown);

  const auto expired = authority.Issue("expired", "DNS:east", true);
  CHECK(Greet(*west, Raw(authority, expired)).reason() == reasons::kPeerDown);
  CHECK(Greet(*west, PlainText()).reason() == reasons::kPeerDown);
  CheckNeverAsked(*west);
  REQUIRE_OK(Greet(*west, Load(With(authority, authority.Issue("east3", "DNS:east")), "east")));
}

TEST_CASE("a server that cannot prove its name is CERT_REJECTED, and is told nothing") {
  Authority authority;
  Authority other;
  const Credentials east = Load(With(authority, authority.Issue("east", "DNS:east")), "east");
  const auto reject = [&](Credentials credentials) {
    const auto west = Serve(std::move(credentials));
    const Status status = Greet(*west, east);
    INFO(status.ToString());
    CHECK(status.code() == Code::kUnauthenticated);
    CHECK(status.reason() == reasons::kCertRejected);
    CHECK(status.message().find("west (" + west->address() + ")") != std::string::npos);
    CHECK(status.remedy().find("DNS:west") != std::string::npos);
    CheckNeverAsked(*west);
  };
  reject(Load(With(authority, authority.Issue("north", "DNS:north")), "north"));
  reject(Raw(other, other.Issue("west", "DNS:west")));
  reject(Raw(authority, authority.Issue("expired", "DNS:west", true)));
  // The common name is no name, nor is one in other capitals, nor a wildcard.
  reject(Raw(authority, authority.Issue("west", "")));
  reject(Raw(authority, authority.Issue("capitals", "DNS:West")));
  reject(Raw(authority, authority.Issue("wild", "DNS:*")));
  reject(PlainText());
}

namespace {

// Puts other files in the place of a node's.
void Replace(const tls::Files& files, const Authority::Files& now) {
  std::filesystem::copy_file(now.certificate, files.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(now.key, files.key, std::filesystem::copy_options::overwrite_existing);
}

}  // namespace

TEST_CASE("a node's new certificate is used by what it serves and what it dials") {
  Authority authority;
  const tls::Files files = With(authority, authority.Issue("west", "DNS:west"));
  const auto trust = Open(files, "west");
  const auto west = Serve(MutualTls(trust));
  const tls::Files own = With(authority, authority.Issue("east", "DNS:east"));
  const auto east = Open(own, "east");
  AskingNode asking(MutualTls(east));
  asking.Dial(west->address());
  REQUIRE_OK(asking.Hello());

  const auto before = authority.Issue("before", "DNS:east");
  REQUIRE_OK(Greet(*west, Raw(authority, before)));

  // Both nodes change over to another authority, one after the other's files.
  Authority next;
  for (const auto& [node, each, where] :
       {std::tuple{"west", trust, files}, std::tuple{"east", east, own}}) {
    std::filesystem::copy_file(next.ca(), where.ca,
                               std::filesystem::copy_options::overwrite_existing);
    Replace(where, next.Issue(node, std::string("DNS:") + node));
    const auto changed = each->Reload();
    REQUIRE_OK(changed);
    CHECK(*changed);
  }
  REQUIRE_OK(asking.Hello());
  REQUIRE_OK(Greet(*west, Load(With(next, next.Issue("east2", "DNS:east")), "east")));
  // Who has nothing but what the first authority signed is cut off.
  grpc::SslCredentialsOptions late;
  late.pem_root_certs = ReadFile(next.ca());
  late.pem_private_key = ReadFile(before.key);
  late.pem_cert_chain = ReadFile(before.certificate);
  Credentials left_behind;
  left_behind.tls = true;
  left_behind.channel = Always(late);
  CHECK(Greet(*west, left_behind).reason() == reasons::kPeerDown);
}

TEST_CASE("a certificate that is revoked ends what was allowed by it, in both directions") {
  Authority authority;
  const auto good = authority.Issue("west", "DNS:west");
  const auto caller = authority.Issue("east", "DNS:east");
  tls::Files files = With(authority, good);
  files.crl = authority.Revoke({});
  const auto trust = Open(files, "west");
  const auto west = Serve(MutualTls(trust));
  AskingNode asking(Load(With(authority, caller), "east"));
  asking.Dial(west->address());
  REQUIRE_OK(asking.Hello());

  // What serves: on the connection that is open.
  authority.Revoke({caller});
  auto changed = trust->Reload();
  REQUIRE_OK(changed);
  CHECK(*changed);
  const Status status = asking.Hello().status();
  CHECK(status.reason() == reasons::kCertRejected);
  CHECK(status.message().find("revoked") != std::string::npos);
  CHECK(Greet(*west, Raw(authority, caller)).reason() == reasons::kCertRejected);

  // What dials: likewise.
  tls::Files dialling = With(authority, authority.Issue("north", "DNS:north"));
  dialling.crl = files.crl;
  const auto north = Open(dialling, "north");
  AskingNode asks(MutualTls(north));
  asks.Dial(west->address());
  REQUIRE_OK(asks.Hello("north"));
  authority.Revoke({caller, good});
  REQUIRE_OK(north->Reload());
  const Status told = asks.Hello("north").status();
  INFO(told.ToString());
  CHECK(told.code() == Code::kUnauthenticated);
  CHECK(told.reason() == reasons::kCertRejected);
  CHECK(told.message().find("revoked") != std::string::npos);
}
}  // namespace tls_test
