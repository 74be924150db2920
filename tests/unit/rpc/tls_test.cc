// Mutual TLS between daemons: who is let in, and what is said to the others.

#include "tests/support/certificates.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"
#include "transport/core/reasons.h"

using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Authority;
using onecopy::testing::ReadFile;

namespace {

TlsFiles With(const Authority& authority, const Authority::Files& files) {
  return {authority.ca(), files.certificate, files.key};
}

Credentials Load(const TlsFiles& files, const std::string& node) {
  auto credentials = MutualTls(files, node);
  REQUIRE_OK(credentials);
  return *credentials;
}

// What MutualTls would refuse for its own node, as a stranger may still present it.
Credentials Raw(const Authority& authority, const Authority::Files& files) {
  Credentials credentials;
  credentials.tls = true;
  grpc::SslCredentialsOptions channel;
  channel.pem_root_certs = ReadFile(authority.ca());
  channel.pem_private_key = ReadFile(files.key);
  channel.pem_cert_chain = ReadFile(files.certificate);
  credentials.channel = grpc::SslCredentials(channel);
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
  foreign.channel = grpc::SslCredentials(trusting);
  CHECK(Greet(*west, foreign).reason() == reasons::kPeerDown);

  Credentials bare;
  bare.tls = true;
  grpc::SslCredentialsOptions none;
  none.pem_root_certs = ReadFile(authority.ca());
  bare.channel = grpc::SslCredentials(none);
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
  reject(PlainText());
}

TEST_CASE("bad files fail the start, and the error names the file") {
  Authority authority;
  Authority other;
  const testing::TempFolder folder;
  const auto east = authority.Issue("east", "DNS:east");
  const TlsFiles good = With(authority, east);
  REQUIRE_OK(MutualTls(good, "east"));
  { const std::ofstream empty(folder / "empty"); }
  std::ofstream(folder / "garbage")
      << "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n";

  const auto check = [](const TlsFiles& files, const std::string& node, const std::string& file,
                        const std::string& why) {
    const Status status = MutualTls(files, node).status();
    INFO(status.ToString());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(file) != std::string::npos);
    CHECK(status.message().find(why) != std::string::npos);
  };
  const std::string missing = folder / "missing";
  check({missing, good.certificate, good.key}, "east", missing, "No such file");
  check({good.ca, missing, good.key}, "east", missing, "No such file");
  check({good.ca, good.certificate, missing}, "east", missing, "No such file");
  for (const std::string name : {"empty", "garbage"}) {
    const std::string bad = folder / name;
    check({bad, good.certificate, good.key}, "east", bad, "certificate");
    check({good.ca, bad, good.key}, "east", bad, "certificate");
    check({good.ca, good.certificate, bad}, "east", bad, "private key");
  }
  check({folder.path().string(), good.certificate, good.key}, "east", folder.path().string(), "");
  const auto another = other.Issue("another", "DNS:east");
  check({good.ca, good.certificate, another.key}, "east", another.key, "not the key");
  const auto expired = authority.Issue("expired", "DNS:east", true);
  check({good.ca, expired.certificate, expired.key}, "east", expired.certificate, "expired");
  check(good, "west", good.certificate, "DNS:west");
  const auto common = authority.Issue("common", "");
  check({good.ca, common.certificate, common.key}, "common", common.certificate, "DNS:common");
  const auto half = authority.Issue("half", "DNS:east", false, "extendedKeyUsage=serverAuth");
  check({good.ca, half.certificate, half.key}, "east", half.certificate, "clientAuth");
  // A certificate that its own authority did not sign would be refused by every peer.
  check({good.ca, another.certificate, another.key}, "east", another.certificate, "not signed");
}

TEST_CASE("a key with a password is refused rather than asked for") {
  Authority authority;
  const testing::TempFolder folder;
  const auto east = authority.Issue("east", "DNS:east");
  const std::string locked = folder / "locked.key";
  REQUIRE(std::system(("openssl ec -aes128 -passout pass:secret -in " + east.key + " -out " +
                       locked + " 2>/dev/null")
                          .c_str()) == 0);
  const Status status = MutualTls({authority.ca(), east.certificate, locked}, "east").status();
  CHECK(status.message().find(locked) != std::string::npos);
}
