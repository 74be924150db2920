#include "daemon/engine/registry/sessions.h"

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using engine::ClientIdentity;
using engine::SessionId;
using engine::Sessions;

namespace {

constexpr uint32_t kDaemonUid = 998;

ClientIdentity Client(const Uid& uid) {
  ClientIdentity identity;
  identity.pid = 4711;
  identity.uid = uid;
  identity.gid = 100;
  identity.same_pid_namespace = !uid.foreign();
  identity.program = "test";
  return identity;
}

Sessions::Opened Open(Sessions& sessions, const ClientIdentity& identity) {
  auto opened = sessions.Open(identity);
  REQUIRE_OK(opened);
  return *opened;
}

os::UniqueFd SomeFd() { return os::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

bool IsAdministrator(const ClientIdentity& identity) {
  Sessions sessions("east", kDaemonUid);
  const auto who = sessions.Find(Open(sessions, identity).token);
  REQUIRE_OK(who);
  return who->administrator;
}

}  // namespace

TEST_CASE("a token finds who its session is") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened alice = Open(sessions, Client(1000));
  const Sessions::Opened bob = Open(sessions, Client(1001));
  const auto who = sessions.Find(bob.token);
  REQUIRE_OK(who);
  CHECK(who->uid == 1001);
  CHECK(who->node == "east");
  CHECK(who->session == bob.id);
  CHECK(who->ToString() == "1001@east");
  CHECK(alice.id != bob.id);
  REQUIRE(sessions.Identity(alice.id) != nullptr);
  CHECK(sessions.Identity(alice.id)->uid == 1000);
  CHECK(sessions.Identity(SessionId("s99")) == nullptr);
}

TEST_CASE("tokens are 128 random bits, no two alike") {
  Sessions sessions("east", kDaemonUid);
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = Open(sessions, Client(1000)).token;
    CHECK(token.size() == 32);
    CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
    seen.insert(token);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("administrators are root and the daemon's own uid, and neither in a container") {
  CHECK(IsAdministrator(Client(0)));
  CHECK(IsAdministrator(Client(kDaemonUid)));
  CHECK_FALSE(IsAdministrator(Client(1000)));
  CHECK_FALSE(IsAdministrator(Client({0, "pid7"})));
  CHECK_FALSE(IsAdministrator(Client({kDaemonUid, "user7"})));
}

TEST_CASE("a token that no open session has is refused") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened session = Open(sessions, Client(1000));
  CHECK(sessions.Find("").status().reason() == reasons::kNoSession);
  CHECK(sessions.Find(session.id.str()).status().code() == Code::kUnauthenticated);
  CHECK(sessions.Find(session.token.substr(1)).status().code() == Code::kUnauthenticated);
  sessions.Close(session.id);
  CHECK(sessions.Find(session.token).status().code() == Code::kUnauthenticated);
}

TEST_CASE("a descriptor is taken once, by its own session only") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened alice = Open(sessions, Client(1000));
  const Sessions::Opened bob = Open(sessions, Client(1000));
  os::UniqueFd fd = SomeFd();
  const int number = fd.get();
  const auto fd_handle = sessions.Deposit(alice.id, std::move(fd));
  REQUIRE_OK(fd_handle);
  CHECK(*fd_handle != 0);
  CHECK(sessions.Take(bob.id, *fd_handle).status().reason() == reasons::kBadHandle);
  CHECK(sessions.Take(alice.id, *fd_handle + 1).status().code() == Code::kInvalidArgument);
  {
    const auto taken = sessions.Take(alice.id, *fd_handle);
    REQUIRE_OK(taken);
    CHECK(taken->get() == number);
  }
  CHECK(sessions.Take(alice.id, *fd_handle).status().reason() == reasons::kBadHandle);
  CHECK_FALSE(IsOpen(number));
}

TEST_CASE("what a session has deposited is closed with it, and its listener told once") {
  Sessions sessions("east", kDaemonUid);
  std::vector<SessionId> closed;
  sessions.OnClosed([&](const SessionId& id) { closed.push_back(id); });
  const Sessions::Opened session = Open(sessions, Client(1000));
  os::UniqueFd fd = SomeFd();
  const int number = fd.get();
  REQUIRE_OK(sessions.Deposit(session.id, std::move(fd)));
  CHECK(IsOpen(number));
  sessions.Close(session.id);
  CHECK_FALSE(IsOpen(number));
  sessions.Close(session.id);
  sessions.Close(SessionId("s99"));
  CHECK(closed == std::vector{session.id});
  CHECK(sessions.Deposit(session.id, SomeFd()).status().reason() == reasons::kNoSession);
  CHECK(sessions.Take(session.id, 1).status().reason() == reasons::kNoSession);
}

TEST_CASE("a session's descriptors are limited") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened session = Open(sessions, Client(1000));
  const auto fd_handle = sessions.Deposit(session.id, SomeFd());
  REQUIRE_OK(fd_handle);
  for (size_t i = 1; i < Sessions::kMaxDeposits; ++i) {
    REQUIRE_OK(sessions.Deposit(session.id, SomeFd()));
  }
  os::UniqueFd fd = SomeFd();
  const int number = fd.get();
  const Status refused = sessions.Deposit(session.id, std::move(fd)).status();
  CHECK(refused.reason() == reasons::kQuota);
  CHECK_FALSE(IsOpen(number));
  REQUIRE_OK(sessions.Take(session.id, *fd_handle));
  REQUIRE_OK(sessions.Deposit(session.id, SomeFd()));
}

TEST_CASE("what was passed to a session that has ended means nothing in the next one") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened before = Open(sessions, Client(1000));
  const auto fd_handle = sessions.Deposit(before.id, SomeFd());
  REQUIRE_OK(fd_handle);
  sessions.Close(before.id);
  const Sessions::Opened after = Open(sessions, Client(1000));
  REQUIRE_OK(sessions.Deposit(after.id, SomeFd()));
  CHECK(sessions.Take(after.id, *fd_handle).status().reason() == reasons::kBadHandle);
}

TEST_CASE("one user's sessions and descriptors leave room for others', and all users' for root's") {
  engine::Limits limits;
  limits.sessions = {3, 6};
  limits.descriptors = {2, 10};
  limits.reserved_percent = 30;  // 2 of 6 sessions
  Sessions sessions("east", kDaemonUid, {"east", limits});
  const Sessions::Opened first = Open(sessions, Client(1000));
  const Sessions::Opened second = Open(sessions, Client(1000));
  Open(sessions, Client(1000));
  const Status refused = sessions.Open(Client(1000)).status();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == reasons::kQuota);
  CHECK(refused.remedy().find("[limits] sessions_per_user, which is 3") != std::string::npos);
  Open(sessions, Client(1001));
  const Status full = sessions.Open(Client(1002)).status();
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.remedy().find("[limits] sessions, which is 6") != std::string::npos);
  CHECK(sessions.Open(Client({0, "pid7"})).status().reason() == reasons::kQuota);
  Open(sessions, Client(0));
  Open(sessions, Client(kDaemonUid));
  CHECK(sessions.Open(Client(0)).status().reason() == reasons::kQuota);

  REQUIRE_OK(sessions.Deposit(first.id, SomeFd()));
  const auto fd_handle = sessions.Deposit(second.id, SomeFd());
  REQUIRE_OK(fd_handle);
  const Status passed = sessions.Deposit(first.id, SomeFd()).status();
  CHECK(passed.reason() == reasons::kQuota);
  CHECK(passed.remedy().find("descriptors_per_user") != std::string::npos);
  const auto gone = sessions.Gone(first.id);
  REQUIRE(gone != nullptr);
  CHECK_FALSE(*gone);
  sessions.Close(first.id);  // and with it what it has passed
  CHECK(*gone);
  CHECK(sessions.Gone(first.id) == nullptr);
  REQUIRE_OK(sessions.Deposit(second.id, SomeFd()));
  REQUIRE_OK(sessions.Take(second.id, *fd_handle));
  REQUIRE_OK(sessions.Deposit(second.id, SomeFd()));
}

TEST_CASE("a listener may look at the sessions that are left while one ends") {
  Sessions sessions("east", kDaemonUid);
  const Sessions::Opened ending = Open(sessions, Client(1000));
  const Sessions::Opened staying = Open(sessions, Client(1001));
  bool looked = false;
  sessions.OnClosed([&](const SessionId& id) {
    CHECK(sessions.Identity(id) == nullptr);
    if (id == staying.id) return;
    CHECK(sessions.Find(staying.token).ok());
    sessions.Close(staying.id);
    looked = true;
  });
  sessions.Close(ending.id);
  CHECK(looked);
  CHECK_FALSE(sessions.Find(staying.token).ok());
}

TEST_CASE("a token counts from whom it was given to, and from nobody else") {
  Sessions sessions("east", kDaemonUid);
  ClientIdentity alice = Client(1000);
  alice.presenter = "uid 1000";
  const Sessions::Opened opened = Open(sessions, alice);
  REQUIRE_OK(sessions.FindFor(opened.token, "uid 1000"));
  for (const char* other : {"", "uid 0", "uid 1001", "uid 1000 user 4026531837 pid own cgroup "}) {
    CAPTURE(other);
    const Status refused = sessions.FindFor(opened.token, other).status();
    CHECK(refused.code() == Code::kUnauthenticated);
    CHECK(refused.reason() == reasons::kNoSession);
  }
  CHECK_FALSE(sessions.FindFor("guess", "uid 1000").ok());
}
