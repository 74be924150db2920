// OpenSession on api.sock: a session that needs nothing but gRPC, and lives as long as its stream.
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/rpc/samples.h"
#include "tests/unit/rpc/session_calls.h"

namespace session_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

std::string Self() { return std::to_string(::geteuid()); }

void AwaitNoSession(ApiRig& rig, const std::string& token) {
  rig.engine.Await([&rig, token] { return !rig.sessions.Find(token).ok(); });
}

engine::Limits AtMost(size_t sessions) {
  engine::Limits limits;
  limits.sessions = {sessions, sessions};
  limits.reserved_percent = 0;
  return limits;
}

}  // namespace

TEST_CASE("a session is the caller's own, by the kernel's word") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  OpenedSession session(rig.channel);
  REQUIRE(session.ok());
  CHECK(session->protocol() == kClientProtocolMax);
  CHECK(session->token().size() == 32);
  CHECK(session->node() == "east");
  CHECK(session->version() == "1.2.3");
  CHECK(session->owner() == Self() + "@east");
  REQUIRE_OK(AskAs(rig.channel, session->token()));
  const auto who = rig.engine.Get<engine::Principal>([&] { return rig.api.who; });
  CHECK(who.uid == Uid(::geteuid()));
  CHECK(who.administrator == (::geteuid() == 0));
  // Over another connection of the same user likewise.
  REQUIRE_OK(AskAs(rig.Channel(), session->token()));
  const auto what = rig.engine.Get<std::string>([&] { return rig.sessions.Describe(who.session); });
  CHECK(what.starts_with("api.sock (test 1.0)"));
}

TEST_CASE("a session ends with its stream, and its token with it") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  OpenedSession session(rig.channel);
  OpenedSession other(rig.channel);
  REQUIRE(session.ok());
  REQUIRE(other.ok());
  CHECK(session->token() != other->token());
  CHECK(session.End().code() == Code::kCancelled);
  AwaitNoSession(rig, session->token());
  const Status late = AskAs(rig.channel, session->token());
  CHECK(late.code() == Code::kUnauthenticated);
  CHECK(late.reason() == reasons::kNoSession);
  REQUIRE_OK(AskAs(rig.channel, other->token()));
}

TEST_CASE("a session ends with its connection") {
  ApiRig rig;
  std::string token;
  {
    OpenedSession session(rig.Channel());
    REQUIRE(session.ok());
    token = session->token();
    CHECK(rig.engine.Get<bool>([&] { return rig.sessions.Find(token).ok(); }));
  }
  AwaitNoSession(rig, token);
}

TEST_CASE("a session ends when the daemon does, and its client hears why") {
  ApiRig rig;
  OpenedSession session(rig.channel);
  REQUIRE(session.ok());
  rig.server->Stop();
  const Status status = session.Wait();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == reasons::kDraining);
}

TEST_CASE("a client of another version is told both sides' versions") {
  ApiRig rig;
  v1::OpenSessionRequest request;
  request.set_protocol_min(kClientProtocolMax + 1);
  request.set_protocol_max(kClientProtocolMax + 5);
  OpenedSession session(rig.channel, request);
  CHECK_FALSE(session.ok());
  const Status status = session.Wait();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kPeerIncompatible);
  CHECK(status.message().find("1.2.3") != std::string::npos);
  // One below the other is no range that could have anything in it.
  request.set_protocol_min(2);
  request.set_protocol_max(1);
  OpenedSession reversed(rig.channel, request);
  CHECK(reversed.Wait().reason() == reasons::kPeerIncompatible);
}

TEST_CASE("what a client calls its program is cut, not kept") {
  ApiRig rig;
  OpenedSession session(rig.channel, OpenedSession::Named(std::string(60'000, 'x')));
  REQUIRE(session.ok());
  const auto described = rig.engine.Get<std::string>(
      [&] { return rig.sessions.Describe(rig.sessions.Find(session->token())->session); });
  CHECK(described.find(std::string(kMaxProgramBytes - 10, 'x')) != std::string::npos);
  CHECK(described.find(std::string(kMaxProgramBytes + 1, 'x')) == std::string::npos);
}

TEST_CASE("a request for a stream that is longer than any attach.sock takes is refused") {
  ApiRig rig;
  OpenedSession session(rig.channel, OpenedSession::Named(std::string(kMaxAttachBytes, 'x')));
  CHECK(session.Wait().reason() == reasons::kBadSize);
}

TEST_CASE("a token of OpenSession is worth nothing to another user's connection") {
  ApiRig rig;
  // One whose session was opened over a connection of other namespaces.
  engine::ClientIdentity stranger;
  stranger.uid = Uid(::geteuid());
  stranger.presenter = "uid " + Self() + " user 4026532601 pid 4026532602 cgroup 7";
  const auto token =
      rig.engine.Get<std::string>([&] { return rig.sessions.Open(stranger)->token; });
  CHECK(AskAs(rig.channel, token).reason() == reasons::kNoSession);
}

TEST_CASE("thousands of sessions are refused beyond the limit, and all are forgotten") {
  constexpr size_t kMost = 40;
  ApiRig rig({}, AtMost(kMost + 1));  // the rig has one itself
  size_t refused = 0;
  std::vector<std::unique_ptr<OpenedSession>> kept;
  for (int i = 0; i < 2000; ++i) {
    auto session = std::make_unique<OpenedSession>(rig.channel);
    if (session->ok()) {
      kept.push_back(std::move(session));
      continue;
    }
    const Status why = session->Wait();
    CHECK(why.code() == Code::kResourceExhausted);
    CHECK(why.reason() == reasons::kQuota);
    CHECK(why.message().find("sessions") != std::string::npos);
    ++refused;
  }
  CHECK(kept.size() == kMost);
  CHECK(refused == 2000 - kMost);
  std::vector<std::string> tokens;
  for (const auto& session : kept) tokens.push_back((*session)->token());
  kept.clear();
  for (const std::string& token : tokens) AwaitNoSession(rig, token);
  for (size_t i = 0; i < kMost; ++i) {
    kept.push_back(std::make_unique<OpenedSession>(rig.channel));
    CHECK(kept.back()->ok());
  }
}

TEST_CASE("a client that is gone before its turn has no session") {
  ApiRig rig({}, AtMost(2));
  for (int i = 0; i < 50; ++i) {
    auto context = ApiRig::Context("");
    const auto stub = v1::SessionService::NewStub(rig.channel);
    const auto reader = stub->OpenSession(context.get(), {});
    context->TryCancel();
    (void)reader->Finish();
  }
  // Each of them ends sooner or later, whichever way it went.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (bool opened = false; !opened;) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    opened = OpenedSession(rig.channel).ok();
  }
}
}  // namespace session_test
