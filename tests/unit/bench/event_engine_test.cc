// The event engines that are compared move all bytes, in order, and say why where one cannot.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <thread>
#include <vector>

#include "bench/ceiling/event_ping_pong.h"
#include "bench/ceiling/event_streams.h"
#include "bench/ceiling/ping_pong.h"
#include "tests/support/catch.h"

namespace onecopy::bench {
namespace {

using Buffers = RingWay::Buffers;
using RingOrEpoll = std::optional<RingWay>;

// Whether rings can be tested here, of which a kernel that refuses them says why.
bool Refused(const Status& status) {
  if (status.code() != Code::kFailedPrecondition) return false;
  CHECK(status.reason() == "NOT_APPLICABLE");
  return true;
}

void MovesEverySeed(Mover& mover) {
  for (const uint64_t seed : {1U, 2U, 3U}) {
    REQUIRE(mover.Fill(seed).ok());
    CHECK_FALSE(*mover.Verify(seed));
    const Result<Moved> moved = mover.Move();
    INFO(moved.status().ToString());
    REQUIRE(moved.ok());
    CHECK(moved->seconds > 0);
    CHECK(moved->loopback);
    CHECK(*moved->cpu_seconds > 0);
    CHECK(*mover.Verify(seed));
  }
}

std::vector<RingOrEpoll> AllEngines() {
  return {std::nullopt,
          RingWay{},
          RingWay{.deferred = false},
          RingWay{.chain = 1},
          RingWay{.chain = 16, .batch = 4},
          RingWay{.chain = 1, .buffers = Buffers::kFixed},
          RingWay{.chain = 4, .buffers = Buffers::kFixed},
          RingWay{.chain = 4, .buffers = Buffers::kZeroCopy}};
}

TEST_CASE("streams by either engine move all bytes, over any number of lanes and threads") {
  for (const RingOrEpoll& ring : AllEngines()) {
    for (const unsigned lanes : {1U, 3U, 8U}) {
      for (const uint64_t reused : {0U, 65536U}) {
        const auto made = EventStreams::Create(
            {.shape = {.bytes = 8'000'003, .lanes = lanes, .reused_bytes = reused},
             .operation_bytes = 65536,
             .threads = 2,
             .ring = ring});
        if (ring && Refused(made.status())) continue;
        INFO(made.status().ToString());
        REQUIRE(made.ok());
        MovesEverySeed(**made);
      }
    }
  }
}

TEST_CASE("a lane of either engine that has no bytes is no trouble") {
  for (const RingOrEpoll& ring : AllEngines()) {
    const auto made =
        EventStreams::Create({.shape = {.bytes = 2, .lanes = 4}, .threads = 9, .ring = ring});
    if (ring && Refused(made.status())) continue;
    REQUIRE(made.ok());
    MovesEverySeed(**made);
    CHECK((*made)->Move()->details.at("threads") == 4);
  }
}

TEST_CASE("a receiver that wakes late gets the end of its stripe, too") {
  const auto made = EventStreams::Create({.shape = {.bytes = 8'000'003, .lanes = 3},
                                          .operation_bytes = 65536,
                                          .threads = 2,
                                          .low_water_bytes = 262'144});
  REQUIRE(made.ok());
  MovesEverySeed(**made);
}

TEST_CASE("small pieces by either engine arrive, one by one and many under way") {
  for (const RingOrEpoll& ring : AllEngines()) {
    for (const unsigned depth : {1U, 7U, 256U}) {
      const auto made = EventPingPong::Create({.depth = depth, .count = 2000}, ring);
      if (ring && Refused(made.status())) continue;
      INFO(made.status().ToString());
      REQUIRE(made.ok());
      MovesEverySeed(**made);
    }
  }
}

TEST_CASE("questions that wait go together, after those that are being sent") {
  Questions questions;
  CHECK(questions.Next().empty());
  questions.Add({0, 4096});
  REQUIRE(questions.Next().size() == sizeof(Question));
  questions.Add({4096, 4096});
  questions.Add({8192, 4096});
  questions.Sent(10);
  CHECK(questions.Next().size() == 6);
  CHECK(questions.waiting());
  questions.Sent(6);
  CHECK(questions.Next().size() == 2 * sizeof(Question));
  CHECK_FALSE(questions.waiting());
}

TEST_CASE("questions that arrive in parts are answered in order, from where a piece stopped") {
  std::vector<std::byte> source(100);
  Answers answers(source.data());
  const Question asked[] = {{50, 20}, {10, 30}};
  const auto bytes = std::as_bytes(std::span(asked));
  std::copy_n(bytes.begin(), 20, answers.Inbox().begin());
  answers.Arrived(20);
  CHECK(answers.waiting() == 1);
  std::copy(bytes.begin() + 20, bytes.end(), answers.Inbox().begin());
  answers.Arrived(12);
  CHECK(answers.arrived() == 2);
  answers.Sent(5);
  Answers::Vector vector;
  REQUIRE(answers.Fill(vector, 0) == 2);
  CHECK(vector[0].iov_base == source.data() + 55);
  CHECK(vector[0].iov_len == 15);
  CHECK(vector[1].iov_base == source.data() + 10);
  REQUIRE(answers.Fill(vector, 1) == 1);
  answers.Sent(44);
  CHECK(answers.answered() == 1);
  answers.Sent(1);
  CHECK(answers.answered() == 2);
}

// Of the calling thread alone: io_uring_setup fails from now on, as on a kernel that has none, or
// in a container that does not allow it.
void RefuseRings(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  REQUIRE(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

TEST_CASE("a kernel that refuses io_uring is told by name, and epoll moves all the same") {
  for (const int error : {ENOSYS, EPERM}) {
    std::vector<Status> refused;
    Status epoll = OkStatus();
    std::thread([&] {
      RefuseRings(error);
      refused.push_back(EventStreams::Create({.ring = RingWay{}}).status());
      refused.push_back(EventStreams::Create({.ring = RingWay{.deferred = false}}).status());
      refused.push_back(EventPingPong::Create({}, RingWay{}).status());
      epoll = EventStreams::Create({}).status();
    }).join();
    for (const Status& status : refused) {
      INFO(status.ToString());
      CHECK(status.code() == Code::kFailedPrecondition);
      CHECK(status.reason() == "NOT_APPLICABLE");
      CHECK(status.message().find(error == ENOSYS ? "ENOSYS" : "EPERM") != std::string::npos);
    }
    CHECK(epoll.ok());
  }
}

TEST_CASE("the end of a lane is an error of either engine, not a wait") {
  for (const RingOrEpoll& ring : {RingOrEpoll{}, RingOrEpoll{RingWay{}}}) {
    auto pairs = ConnectOverLoopback(1, ring.has_value());
    REQUIRE(pairs.ok());
    std::vector<std::byte> memory(4096);
    const StreamEnd end = {.fd = (*pairs)[0].receiver.get(),
                           .buffer = memory,
                           .bytes = memory.size(),
                           .operation_bytes = memory.size()};
    auto engine = ring ? MakeRingStreams(StreamDirection::kReceive, {end}, *ring)
                       : MakeEpollStreams(StreamDirection::kReceive, {end}, 1);
    if (ring && Refused(engine.status())) continue;
    REQUIRE(engine.ok());
    (*pairs)[0].sender.Reset();
    const Status status = (*engine)->Run();
    INFO(status.ToString());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find("ECONNRESET") != std::string::npos);
  }
}

}  // namespace
}  // namespace onecopy::bench
