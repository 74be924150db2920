// Time limits of calls, while a client attaches or registers.
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/client/attach_fixture.h"

namespace attach_test {
namespace {

// Holds the thread of east's engine until it is destroyed.
class HeldEngine {
 public:
  explicit HeldEngine(ServedCluster& daemon) {
    daemon.cluster()["east"].engine().loop().Post(
        [ends = release_.get_future().share()] { ends.wait(); });
  }
  ~HeldEngine() { release_.set_value(); }

 private:
  std::promise<void> release_;
};

CallLimit::Time Soon(std::chrono::milliseconds in = std::chrono::milliseconds(50)) {
  return CallLimit::Clock::now() + in;
}

}  // namespace

TEST_CASE("a thread with a deadline does not wait longer for another one that attaches") {
  Deserted deserted{std::chrono::minutes(10)};
  auto patient = std::async(std::launch::async, [&] { return deserted.client->Ping(); });
  os::UniqueFd attaching(::accept(deserted.stranger.get(), nullptr, nullptr));
  REQUIRE(attaching);
  const onecopy::TransferRequest request{
      .source = {"", "a"}, .destination = {"", "b"}, .deadline = std::chrono::milliseconds(1)};
  const Status late = deserted.client->StartTransfer(request).status();
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK_FALSE(late.remedy().empty());
  CHECK(patient.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  deserted.stranger.Reset();
  attaching.Reset();
  CHECK(patient.get().reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a registration that was not answered in time is not lost to its name") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::optional<HeldEngine> held;
  std::optional<CallLimit> limit;
  bool first = true;
  std::chrono::milliseconds longest(50);
  WatchedMemory memory("memory", [&](Session& /*session*/) {
    if (std::exchange(first, false)) {
      held.emplace(daemon);
      limit.emplace(Soon(longest));
    }
    return onecopy::OkStatus();
  });
  const auto session = (*connection)->Current();
  REQUIRE_OK(session);
  // A busy machine may not even send the call in time: then it needs longer.
  do {
    first = true;
    CHECK(memory.Register(**session).status().code() == Code::kDeadlineExceeded);
    limit.reset();
    held.reset();
    longest *= 2;
  } while (daemon.buffers().empty());
  SECTION("it is registered by the next try") {
    const auto again = memory.Register(**session);
    REQUIRE_OK(again);
    CHECK(daemon.buffers().at(0).id == again->id);
  }
  SECTION("it ends with the memory") {
    onecopy::BufferInfo last;
    REQUIRE_OK(EndRegistration(**connection, memory, &last));
    CHECK(daemon.buffers().empty());
  }
}

TEST_CASE("the end of many unanswered registrations takes no longer than that of one") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  const auto session = (*connection)->Current();
  REQUIRE_OK(session);
  std::vector<std::chrono::milliseconds> given;  // to each question
  const auto unanswered = [&] {
    auto memory = std::make_unique<WatchedMemory>("", [&](Session& /*session*/) {
      given.push_back(CallLimit::Left().value_or(std::chrono::hours(1)));
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    });
    CHECK(memory->Register(**session).status().code() == Code::kDeadlineExceeded);
    given.clear();
    return memory;
  };
  std::vector<std::unique_ptr<WatchedMemory>> memories;
  for (int i = 0; i < 5; ++i) memories.push_back(unanswered());
  onecopy::BufferInfo last;
  for (const auto& memory : memories) REQUIRE_OK(EndRegistration(**connection, *memory, &last));
  REQUIRE(given.size() == memories.size());
  CHECK(std::accumulate(given.begin(), given.end(), std::chrono::milliseconds(0)) <=
        onecopy::client::kTeardown + std::chrono::seconds(1));

  // Once the daemon has answered, its answer is waited for again.
  const auto one_more = unanswered();
  REQUIRE_OK((*session)->Call(&v1::BufferService::Stub::ListBuffers, v1::ListBuffersRequest(),
                              onecopy::client::Patience::kQuick));
  REQUIRE_OK(EndRegistration(**connection, *one_more, &last));
  REQUIRE(given.size() == 1);
  CHECK(given[0] > std::chrono::seconds(1));
}

TEST_CASE("memory whose first registration was not answered in time is not known afterwards") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  int asked = 0;
  const auto memory = std::make_shared<WatchedMemory>(
      "memory", [](Session& /*session*/) { return onecopy::OkStatus(); },
      [&asked] {
        if (++asked > 1) return onecopy::OkStatus();
        return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "nothing was heard");
      });
  CHECK(RegisterFirst(**connection, memory).status().code() == Code::kDeadlineExceeded);
  CHECK(asked == 2);  // what it is called, to end it
  CHECK(memory->retired());
  CHECK(daemon.buffers().empty());
}

TEST_CASE("a daemon whose queue is full is told as one that has not answered by the deadline") {
  const TempFolder dir;
  const os::UniqueFd listener = Listen(dir, SOCK_SEQPACKET);
  std::vector<os::UniqueFd> queue;
  for (auto next = os::ConnectUnix(dir / "attach.sock", SOCK_SEQPACKET); next.ok();
       next = os::ConnectUnix(dir / "attach.sock", SOCK_SEQPACKET)) {
    queue.push_back(*std::move(next));
  }
  const auto run_dir =
      onecopy::client::FindRunDir(onecopy::client::RunDirHints::FromEnvironment(dir.path()));
  const CallLimit limit(Soon());
  const Status late =
      onecopy::client::AttachSocket::Connect(run_dir, "test", std::chrono::minutes(1)).status();
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK(late.reason() == onecopy::reasons::kDeadline);
}

}  // namespace attach_test
