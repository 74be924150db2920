// The API over TLS: users by certificates alone, and who is let in with none of the kind.
#include <filesystem>
#include <tuple>

#include "onecopy/reasons.h"
#include "tests/support/certificates.h"
#include "tests/unit/rpc/samples.h"
#include "tests/unit/rpc/session_calls.h"

namespace network_test {
using namespace onecopy;
using namespace onecopy::rpc;
using onecopy::testing::Authority;
using onecopy::testing::ReadFile;

namespace {

constexpr char kClientOnly[] = "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth";

// Node "west", whose API listens in a network as well as at a socket.
struct NetworkRig {
  NetworkRig() {
    const auto own = authority.Issue("west", "DNS:west");
    files = {authority.ca(), own.certificate, own.key, authority.Revoke({})};
    auto opened = tls::Trust::Open(files, "west");
    REQUIRE_OK(opened);
    trust = *opened;
    ApiServerOptions options;
    options.network.emplace();
    options.network->listen = {"127.0.0.1", 0};
    options.network->credentials = MutualTls(trust);
    options.node = "west";
    options.version = "1.2.3";
    options.report = rig.reports.Sink();
    auto started = ApiServer::Start(std::move(options), rig.engine.loop(), rig.api, rig.sessions);
    REQUIRE_OK(started);
    server = std::move(*started);
    rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  }
  ~NetworkRig() { server->Stop(); }

  std::shared_ptr<grpc::Channel> Dial(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetSslTargetNameOverride("west");
    return grpc::CreateCustomChannel(server->address().ToString(), credentials, arguments);
  }
  std::shared_ptr<grpc::Channel> DialWith(const Authority::Files& own) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(authority.ca());
    options.pem_private_key = ReadFile(own.key);
    options.pem_cert_chain = ReadFile(own.certificate);
    return Dial(grpc::SslCredentials(options));
  }
  Authority::Files User(const std::string& name, const std::string& names) {
    return authority.Issue(name, names, false, kClientOnly);
  }
  std::shared_ptr<grpc::Channel> DialAs(const std::string& name, const std::string& names) {
    return DialWith(User(name, names));
  }
  size_t asked() {
    return rig.engine.Get<size_t>([&] { return rig.api.script.count(); });
  }

  ApiRig rig;
  Authority authority;
  tls::Files files;
  std::shared_ptr<tls::Trust> trust;
  std::unique_ptr<ApiServer> server;
};

Status WhyRefused(const std::shared_ptr<grpc::Channel>& channel) {
  OpenedSession session(channel);
  CHECK_FALSE(session.ok());
  return session.Wait();
}

}  // namespace

TEST_CASE("a user's certificate makes an owner of its own, who is no uid of this node") {
  NetworkRig with;
  const auto channel = with.DialAs("alice", "URI:onecopy://user/0@west");
  OpenedSession session(channel);
  REQUIRE(session.ok());
  CHECK(session->owner() == "0+cert@east");  // east: whom the rig's sessions are of
  CHECK(session->node() == "west");
  REQUIRE_OK(AskAs(channel, session->token()));
  const auto who = with.rig.engine.Get<engine::Principal>([&] { return with.rig.api.who; });
  CHECK(who.uid == Uid(0, "cert"));
  CHECK(who.uid != Uid(0));
  CHECK_FALSE(who.administrator);
  const auto what =
      with.rig.engine.Get<std::string>([&] { return with.rig.sessions.Describe(who.session); });
  CHECK(what.starts_with("ipv4:127.0.0.1:"));
}

TEST_CASE("of several nodes in a certificate the one that serves counts") {
  NetworkRig with;
  OpenedSession session(
      with.DialAs("alice", "URI:onecopy://user/7@east,URI:onecopy://user/8@west"));
  REQUIRE(session.ok());
  CHECK(session->owner().starts_with("8+cert@"));
}

TEST_CASE("who proves no user of this node is CERT_REJECTED, and the engine is never asked") {
  NetworkRig with;
  const auto [name, names] = GENERATE(table<const char*, const char*>({
      {"a-node", "DNS:west"},
      {"a-node-by-uri", "URI:onecopy://east"},
      {"of-another-node", "URI:onecopy://user/1000@east"},
      {"a-user-and-a-node", "URI:onecopy://user/1000@west,DNS:east"},
      {"a-user-and-a-node-by-uri", "URI:onecopy://user/1000@west,URI:onecopy://east"},
      {"two-users", "URI:onecopy://user/1000@west,URI:onecopy://user/1001@west"},
      {"no-names", ""},
      {"no-number", "URI:onecopy://user/alice@west"},
      {"no-node", "URI:onecopy://user/1000"},
      {"zeros-in-front", "URI:onecopy://user/01000@west"},
      {"a-sign", "URI:onecopy://user/+1000@west"},
      {"negative", "URI:onecopy://user/-1@west"},
      {"too-large", "URI:onecopy://user/4294967296@west"},
      {"the-last-number", "URI:onecopy://user/4294967295@west"},
      {"a-namespace", "URI:onecopy://user/0+pid7@west"},
      {"capitals", "URI:onecopy://user/1000@West"},
      {"wildcard", "URI:onecopy://user/1000@*"},
      {"longer", "URI:onecopy://user/1000@west/x"},
      {"good-and-bad", "URI:onecopy://user/1000@west,URI:onecopy://user/x@west"},
  }));
  INFO(name);
  const auto channel = with.DialAs(name, names);
  const Status refused = WhyRefused(channel);
  CHECK(refused.code() == Code::kUnauthenticated);
  CHECK(refused.reason() == reasons::kCertRejected);
  CHECK(refused.remedy().find("onecopy://user/UID@west") != std::string::npos);
  // Nor does a token help that somebody else has got.
  const Status call = AskAs(channel, with.rig.OpenSession());
  CHECK(call.reason() == reasons::kCertRejected);
  CHECK(with.asked() == 0);
}

TEST_CASE("without a certificate of the authority nobody comes in") {
  NetworkRig with;
  Authority other;
  grpc::SslCredentialsOptions none;
  none.pem_root_certs = ReadFile(with.authority.ca());
  CHECK(WhyRefused(with.Dial(grpc::SslCredentials(none))).code() == Code::kUnavailable);
  CHECK(WhyRefused(with.Dial(grpc::InsecureChannelCredentials())).code() == Code::kUnavailable);
  const auto foreign = other.Issue("foreign", "URI:onecopy://user/1000@west", false, kClientOnly);
  CHECK(WhyRefused(with.DialWith(foreign)).code() == Code::kUnavailable);
  const auto expired =
      with.authority.Issue("expired", "URI:onecopy://user/1000@west", true, kClientOnly);
  CHECK(WhyRefused(with.DialWith(expired)).code() == Code::kUnavailable);
  // One that may be a server only is no client's.
  const auto server =
      with.authority.Issue("server", "URI:onecopy://user/1000@west", false,
                           "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth");
  CHECK_FALSE(WhyRefused(with.DialWith(server)).ok());
  CHECK(with.asked() == 0);
}

TEST_CASE("a token is bound to its user: not to another one, nor to a local one") {
  NetworkRig with;
  const auto alice = with.User("alice", "URI:onecopy://user/1000@west");
  OpenedSession session(with.DialWith(alice));
  REQUIRE(session.ok());
  REQUIRE_OK(AskAs(with.DialWith(alice), session->token()));
  const auto mallory = with.DialAs("mallory", "URI:onecopy://user/1001@west");
  CHECK(AskAs(mallory, session->token()).reason() == reasons::kNoSession);
  CHECK(AskAs(with.rig.channel, session->token()).reason() == reasons::kNoSession);
  CHECK(AskAs(with.DialWith(alice), with.rig.token).reason() == reasons::kNoSession);
  CHECK(AskAs(with.DialWith(alice), "").reason() == reasons::kNoSession);
  // A new certificate of the same user is the same user.
  REQUIRE_OK(AskAs(with.DialAs("renewed", "URI:onecopy://user/1000@west"), session->token()));
  (void)session.End();
  with.rig.engine.Await([&] { return !with.rig.sessions.Find(session->token()).ok(); });
  CHECK(AskAs(with.DialWith(alice), session->token()).reason() == reasons::kNoSession);
}

TEST_CASE("a certificate that is revoked ends its calls, its watches and its session") {
  NetworkRig with;
  const auto alice = with.User("alice", "URI:onecopy://user/1000@west");
  const auto bob = with.User("bob", "URI:onecopy://user/1001@west");
  const auto channel = with.DialWith(alice);
  OpenedSession session(channel);
  OpenedSession other(with.DialWith(bob));
  REQUIRE(session.ok());
  REQUIRE(other.ok());
  const auto context = ApiRig::Context(session->token());
  const auto stub = v1::TransferService::NewStub(channel);
  v1::WatchTransferRequest watched;
  watched.set_id("t-1");
  const auto watch = stub->WatchTransfer(context.get(), watched);
  with.rig.engine.Await([&] { return with.rig.api.watches.size() == 1; });

  with.authority.Revoke({alice});
  const auto changed = with.trust->Reload();
  REQUIRE_OK(changed);
  REQUIRE(*changed);
  const Status call = AskAs(channel, session->token());
  CHECK(call.reason() == reasons::kCertRejected);
  CHECK(call.message().find("revoked") != std::string::npos);
  // What is open is ended by the server.
  const Status ended = session.Wait();
  CHECK(ended.code() == Code::kUnauthenticated);
  CHECK(ended.reason() == reasons::kCertRejected);
  v1::Transfer transfer;
  while (watch->Read(&transfer)) {
  }
  CHECK(FromGrpc(watch->Finish()).reason() == reasons::kCertRejected);
  with.rig.engine.Await([&] {
    return with.rig.api.watches.empty() && !with.rig.sessions.Find(session->token()).ok();
  });
  REQUIRE_OK(AskAs(with.DialWith(bob), other->token()));
}

TEST_CASE("another authority's users count as soon as the node's files say so") {
  NetworkRig with;
  const auto before = with.User("alice", "URI:onecopy://user/1000@west");
  OpenedSession session(with.DialWith(before));
  REQUIRE(session.ok());
  Authority next;
  const auto own = next.Issue("west", "DNS:west");
  for (const auto& [from, to] :
       {std::pair{next.ca(), with.files.ca}, std::pair{own.certificate, with.files.certificate},
        std::pair{own.key, with.files.key}, std::pair{next.Revoke({}), with.files.crl}}) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  }
  REQUIRE_OK(with.trust->Reload());
  CHECK(session.Wait().reason() == reasons::kCertRejected);
  const auto user = next.Issue("alice", "URI:onecopy://user/1000@west", false, kClientOnly);
  OpenedSession renewed(with.DialWith(user));  // ca() has been replaced by next's
  CHECK(renewed.ok());
}
}  // namespace network_test
