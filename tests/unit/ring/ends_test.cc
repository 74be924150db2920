// What passes between the two ends of a ring, and what a client may write there.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tests/unit/ring/rig.h"

using namespace onecopy;
using namespace onecopy::ring;

namespace {

struct Both {
  Both() : Both(Sockets()) {}
  explicit Both(std::pair<os::UniqueFd, os::UniqueFd> sockets)
      : socket(std::move(sockets.first)), client(daemon, std::move(sockets.second)) {}

  static DaemonEnd Make() {
    auto end = DaemonEnd::Make();
    REQUIRE_OK(end);
    return std::move(*end);
  }
  bool WokenUp() {
    char bytes[16];
    return ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) > 0;
  }

  DaemonEnd daemon = Make();
  os::UniqueFd socket;
  Client client;
  Request request;
};

}  // namespace

TEST_CASE("submissions arrive as they were made, and completions go back") {
  Both both;
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kNothing);
  // Many more than the rings hold, so that every place is used several times.
  for (uint64_t i = 0; i < 5 * kCompletions; ++i) {
    REQUIRE(both.client.Submit(i % 7, i, 2 * i, 3 * i) == i);
    REQUIRE(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
    both.daemon.GiveBack();
    CHECK(both.request.number == i);
    CHECK_FALSE(both.request.torn);
    CHECK(both.request.route == i % 7);
    CHECK(both.request.from == i);
    CHECK(both.request.to == 2 * i);
    CHECK(both.request.bytes == 3 * i);
    both.daemon.Complete(i, 100 + i, Code::kNotFound, "BUFFER_NOT_FOUND");
    Ended ended;
    CHECK_FALSE(both.client.end.HasCompleted());
    both.daemon.Publish();
    REQUIRE(both.client.end.Reap(&ended));
    CHECK(ended.number == i);
    CHECK(ended.nanoseconds == 100 + i);
    CHECK(ended.code == Code::kNotFound);
    CHECK(std::string(ended.reason) == "BUFFER_NOT_FOUND");
    CHECK_FALSE(both.client.end.Reap(&ended));
  }
}

TEST_CASE("a reason that is too long is cut, and one of exactly the room ends") {
  Both both;
  both.client.Submit(0, 0, 0, 1);
  REQUIRE(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
  both.daemon.Complete(0, 0, Code::kInternal, std::string(100, 'R'));
  both.daemon.Publish();
  Ended ended;
  REQUIRE(both.client.end.Reap(&ended));
  CHECK(std::string(ended.reason) == std::string(kReasonBytes, 'R'));
}

TEST_CASE("the memory can be made neither smaller nor larger, and stays writable") {
  Both both;
  const int fd = both.client.memory.get();
  CHECK(::ftruncate(fd, 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(fd, 2 * sizeof(Shared)) == -1);
  CHECK(errno == EPERM);
  CHECK(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1);
  // What can be done is to empty it: then it reads as zeroes, and nobody faults.
  REQUIRE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(Shared)) == 0);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kNothing);
  both.client.Submit(1, 2, 3, 4);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
}

TEST_CASE("a number of submissions that makes no sense ends the ring for good") {
  const uint64_t nonsense = GENERATE(kSubmissions + 1, uint64_t{1} << 63, UINT64_MAX);
  Both both;
  both.client.shared().submitted.store(nonsense);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kBroken);
  both.client.shared().submitted.store(1);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kBroken);
}

TEST_CASE("a number of submissions that goes back ends the ring") {
  Both both;
  for (int i = 0; i < 3; ++i) both.client.Submit(0, 0, 0, 1);
  for (int i = 0; i < 3; ++i) REQUIRE(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
  both.client.shared().submitted.store(1);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kBroken);
}

TEST_CASE("a number of read completions that makes no sense ends the ring") {
  const uint64_t nonsense = GENERATE(uint64_t{1}, kCompletions, UINT64_MAX);
  Both both;
  both.client.shared().reaped.store(nonsense);
  both.client.Submit(0, 0, 0, 1);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kBroken);
}

TEST_CASE("an entry that is another one's is told apart") {
  Both both;
  both.client.Submit(0, 0, 0, 1);
  both.client.shared().submissions[0].words[Submission::kNumber].store(7);
  REQUIRE(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
  CHECK(both.request.torn);
  CHECK(both.request.number == 0);
}

TEST_CASE("who does not read completions is taken nothing from, until it does") {
  Both both;
  uint64_t number = 0;
  uint64_t taken = 0;
  // A client that goes on submitting into what the daemon gives back.
  while (both.client.end.Submit(0, 0, 0, 1, &number)) {
    const DaemonEnd::Taken outcome = both.daemon.Take(&both.request);
    if (outcome == DaemonEnd::Taken::kNoRoom) continue;
    REQUIRE(outcome == DaemonEnd::Taken::kOne);
    both.daemon.GiveBack();
    both.daemon.Complete(taken++, 0, Code::kOk, "");
    both.daemon.Publish();
  }
  CHECK(taken == kCompletions);
  CHECK(number + 1 == kCompletions + kSubmissions);
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kNoRoom);
  CHECK(both.WokenUp());       // by the first
  CHECK(both.daemon.Sleep());  // although there is something
  CHECK_FALSE(both.WokenUp());
  Ended ended;
  for (uint64_t i = 0; i < kCompletions; ++i) {
    REQUIRE(both.client.end.Reap(&ended));
    CHECK(ended.number == i);
  }
  CHECK_FALSE(both.client.end.Reap(&ended));
  CHECK(both.WokenUp());  // there is room again
  CHECK(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
}

TEST_CASE("a sleeping daemon is woken once, and does not sleep over a submission") {
  Both both;
  both.client.Submit(0, 0, 0, 1);
  CHECK(both.WokenUp());  // it sleeps at first
  both.client.Submit(0, 0, 0, 1);
  CHECK_FALSE(both.WokenUp());  // it has been told
  CHECK_FALSE(both.daemon.Sleep());
  both.client.Submit(0, 0, 0, 1);
  CHECK_FALSE(both.WokenUp());
  for (int i = 0; i < 3; ++i) REQUIRE(both.daemon.Take(&both.request) == DaemonEnd::Taken::kOne);
  CHECK(both.daemon.Sleep());
  both.client.Submit(0, 0, 0, 1);
  CHECK(both.WokenUp());
}

TEST_CASE("a sleeping client is woken by a completion, and by the ring's end") {
  Both both;
  std::thread client([&] {
    CHECK(both.client.Next().number == 0);
    while (both.client.end.state() == State::kOpen) both.client.end.Sleep(std::chrono::hours(1));
  });
  both.client.shared().sleepers.load();
  both.daemon.Complete(0, 0, Code::kOk, "");
  both.daemon.Publish();
  both.daemon.End(State::kEnded);
  client.join();
  uint64_t number = 0;
  CHECK_FALSE(both.client.end.Submit(0, 0, 0, 1, &number));
}

TEST_CASE("memory of another layout is refused") {
  Both both;
  SECTION("another version") { both.client.shared().layout.store(kLayout + 1); }
  SECTION("no ring at all") { both.client.shared().magic.store(0); }
  CHECK(ClientEnd::Open(both.client.memory, os::UniqueFd()).status().code() ==
        Code::kUnimplemented);
}

TEST_CASE("a client sees that the daemon has gone") {
  Both both;
  CHECK_FALSE(both.client.end.DaemonIsGone());
  both.socket.Reset();
  CHECK(both.client.end.DaemonIsGone());
}
