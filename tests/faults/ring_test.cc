// Rings of clients that write nonsense there, die, or lose what their routes rest on: only their
// own transfers fail.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "tests/faults/raw_ring.h"
#include "tests/faults/serving.h"

namespace ring_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Result;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
namespace ring = onecopy::ring;
using namespace onecopy::testing;

constexpr uint64_t kPiece = 4096;

TransferRequest Piece(const std::string& from, const std::string& to, uint64_t offset = 0) {
  return {.source = {"", from, offset, kPiece}, .destination = {"", to, offset, {}}};
}

// An orderly client with a ring, beside which another one misbehaves.
struct Beside {
  Node east{"east"};
  Kept kept{east};
  Client client = east.Connect();
  onecopy::HostBuffer from = Must(client.CreateHostBuffer("from", 64 * 1024));
  onecopy::HostBuffer to = Must(client.CreateHostBuffer("to", 64 * 1024));
  size_t descriptors = 0;

  Beside() {
    east.Do({"buffer", "create", "a", "--size", "64KiB"});
    east.Do({"buffer", "create", "b", "--size", "64KiB"});
    CheckGoesOn();
    descriptors = OpenDescriptors(east.process().pid());
  }
  // By the ring, and right.
  void CheckGoesOn() {
    TransferInfo last;
    for (uint64_t i = 0; i < 16; ++i) {
      std::fill(from.data(), from.data() + from.bytes(), std::byte(++seed_));
      last = Must(client.RunTransfer(Piece("from", "to", i * kPiece)));
      REQUIRE(last.state == TransferState::kSucceeded);
      CHECK(to.data()[i * kPiece] == std::byte(seed_));
      CHECK(to.data()[(i + 1) * kPiece - 1] == std::byte(seed_));
    }
    CHECK(Must(client.GetTransfer(last.id)).receipt.evidence.at("submitted") == "ring");
  }
  void Check() {
    CheckGoesOn();
    WaitUntil("what the other client had is closed",
              [&] { return OpenDescriptors(east.process().pid()) <= descriptors; });
    kept.CheckUnchanged();
    CheckServes(east);
  }

 private:
  int seed_ = 0;
};

// A route from "a" to "b" that has carried a piece.
uint64_t OpenAndUse(RawRing& raw) {
  const uint64_t route = raw.OpenRoute("a", "b");
  uint64_t number = 0;
  REQUIRE(raw.end().Submit(route, 0, 0, kPiece, &number));
  CHECK(raw.Next().code == Code::kOk);
  return route;
}

}  // namespace

TEST_CASE("small transfers of a client go by its ring, and have receipts like all others") {
  Beside with;
  const TransferInfo done = Must(with.client.RunTransfer(Piece("from", "to")));
  CHECK(done.receipt.path == "local");
  CHECK(done.receipt.copies() == 1);
  CHECK(done.bytes_done == kPiece);
  const Json shown = with.east.Do({"transfer", "show", done.id.str()});
  CHECK(shown.at("state") == "SUCCEEDED");
  CHECK(shown.at("path") == "local");
  CHECK(shown.at("bytes") == kPiece);
  CHECK(shown.at("copies") == shown.at("steps").size());
  CHECK(shown.at("evidence").at("submitted") == "ring");
  CHECK(shown.at("source") == "east:from@0+4096");
  size_t listed = 0;
  for (const Json& transfer : with.east.Do({"transfer", "ls"})) {
    listed += transfer.at("id") == done.id.str() ? 1 : 0;
  }
  CHECK(listed == 1);
  // What rings do not carry goes on as before.
  TransferRequest checked = Piece("from", "to");
  checked.checksum = true;
  CHECK(Must(with.client.RunTransfer(checked)).receipt.checksum->verified);
  with.Check();
}

TEST_CASE("many small transfers may be under way, and any thread may wait for them") {
  Beside with;
  std::vector<onecopy::TransferId> ids;
  for (uint64_t i = 0; i < 256; ++i) {
    ids.push_back(Must(with.client.StartTransfer(Piece("from", "to", i % 16 * kPiece))).id);
  }
  std::vector<std::thread> threads;
  std::atomic<size_t> succeeded{0};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < ids.size(); i += 4) {
        const Result<TransferInfo> done = with.client.AwaitTransfer(ids[i]);
        if (done.ok() && done->state == TransferState::kSucceeded) ++succeeded;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(succeeded == ids.size());
  for (const auto& id : ids) CHECK(Must(with.client.GetTransfer(id)).bytes == kPiece);
  with.Check();
}

TEST_CASE("what is wrong with a small transfer is told as over gRPC") {
  Beside with;
  CheckFailed(with.client.RunTransfer(Piece("from", "to", 64 * 1024)).status(), Code::kOutOfRange,
              "RANGE_OUT_OF_BUFFER");
  CheckFailed(with.client.RunTransfer(Piece("from", "from")).status(), Code::kInvalidArgument,
              "RANGES_OVERLAP");
  CheckFailed(with.client.RunTransfer(Piece("from", "nobody")).status(), Code::kNotFound,
              "BUFFER_NOT_FOUND");
  with.Check();
}

TEST_CASE("garbage numbers end the ring of who wrote them") {
  Beside with;
  RawRing raw(with.east);
  OpenAndUse(raw);
  SECTION("submissions that there are not") {
    raw.shared().submitted.store(GENERATE(uint64_t{0}, uint64_t{1} << 40, UINT64_MAX));
  }
  SECTION("completions read that there are not") {
    raw.shared().reaped.store(GENERATE(uint64_t{2}, UINT64_MAX));
    raw.shared().submitted.store(2);
  }
  raw.Wake();
  CHECK(raw.AwaitEnd() == ring::State::kBroken);
  with.CheckGoesOn();
  raw.CloseSession();
  with.Check();
}

TEST_CASE("torn entries are refused, or are what they became, within their route") {
  Beside with;
  RawRing raw(with.east);
  const uint64_t route = raw.OpenRoute("a", "b");
  std::atomic<bool> stop{false};
  std::thread tearing([&] {
    for (uint64_t i = 0; !stop; ++i) {
      for (ring::Submission& entry : raw.shared().submissions) {
        entry.words[ring::Submission::kTo].store(i % 2 == 0 ? 0 : UINT64_MAX - 64);
        entry.words[ring::Submission::kBytes].store(i % 3 == 0 ? 64 : UINT64_MAX);
        entry.words[ring::Submission::kNumber].store(i);
      }
    }
  });
  for (uint64_t i = 0; i < 5000; ++i) {
    uint64_t number = 0;
    REQUIRE(raw.end().Submit(route, 0, 0, 64, &number));
    CHECK(raw.Next().number == i);
  }
  stop = true;
  tearing.join();
  raw.CloseSession();
  with.Check();
}

TEST_CASE("the memory of a ring can be shrunk by nobody, and emptying it harms nobody else") {
  Beside with;
  RawRing raw(with.east);
  CHECK(::ftruncate(raw.memory(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(::ftruncate(raw.memory(), 1 << 20) == -1);
  CHECK(errno == EPERM);
  CHECK(::fcntl(raw.memory(), F_ADD_SEALS, F_SEAL_WRITE) == -1);
  OpenAndUse(raw);
  REQUIRE(::fallocate(raw.memory(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      sizeof(ring::Shared)) == 0);
  raw.Wake();
  CHECK(raw.AwaitEnd() == ring::State::kBroken);  // its number of submissions has gone back
  raw.CloseSession();
  with.Check();
}

TEST_CASE("a client may be killed inside a submission") {
  Beside with;
  // Alive, with a thread that does nothing but submit, until it is killed.
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RawRing raw(with.east);
    const uint64_t route = raw.OpenRoute("a", "b");
    ring::Ended ended;
    for (uint64_t i = 0;; ++i) {
      uint64_t number = 0;
      static_cast<void>(raw.end().Submit(route, 0, 0, 64 * 1024, &number));
      while (raw.end().Reap(&ended)) {
      }
      if (i == 1000 && ::write(pipe[1], "", 1) != 1) ::_exit(1);
    }
  }
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);
  with.CheckGoesOn();
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(pipe[0]);
  ::close(pipe[1]);
  CHECK(WIFSIGNALED(status));
  with.Check();
}

TEST_CASE("10,000 submissions whose completions nobody reads stop that client alone") {
  Beside with;
  RawRing raw(with.east);
  const uint64_t route = raw.OpenRoute("a", "b");
  ring::Shared& shared = raw.shared();
  uint64_t submitted = 0;
  while (submitted < 10'000) {
    if (submitted - shared.taken.load() >= ring::kSubmissions) {
      if (shared.completed.load() == ring::kCompletions) break;
      std::this_thread::yield();
      continue;
    }
    ring::Submission& entry = shared.submissions[submitted % ring::kSubmissions];
    entry.words[ring::Submission::kNumber].store(submitted);
    entry.words[ring::Submission::kRoute].store(route);
    entry.words[ring::Submission::kFrom].store(0);
    entry.words[ring::Submission::kTo].store(0);
    entry.words[ring::Submission::kBytes].store(64);
    shared.submitted.store(++submitted);
    if (shared.asleep.exchange(0) != 0) raw.Wake();
  }
  CHECK(submitted == ring::kCompletions + ring::kSubmissions);
  with.CheckGoesOn();
  SECTION("and it goes on where it reads them") {
    for (uint64_t i = 0; i < submitted; ++i) CHECK(raw.Next().number == i);
  }
  SECTION("or overwrites what has not been taken") {
    shared.submitted.store(10'000);
    // Nothing more is looked at, as long as it reads nothing.
    with.CheckGoesOn();
    shared.reaped.store(ring::kCompletions);
    raw.Wake();
    CHECK(raw.AwaitEnd() == ring::State::kBroken);
  }
  raw.CloseSession();
  with.Check();
}

TEST_CASE("a buffer that is removed takes its routes with it") {
  Beside with;
  RawRing raw(with.east);
  const uint64_t route = OpenAndUse(raw);
  uint64_t number = 0;
  with.east.Do({"buffer", "rm", GENERATE("a", "b")});
  REQUIRE(raw.end().Submit(route, 0, 0, kPiece, &number));
  const ring::Ended refused = raw.Next();
  CHECK(refused.code != Code::kOk);
  // A new buffer of the name is another one, to this route.
  raw.CloseSession();
  with.Check();
}

TEST_CASE(
    "a client library goes on with a buffer that was made anew, and hears of one that was not") {
  Beside with;
  CHECK(Must(with.client.RunTransfer(Piece("a", "b"))).state == TransferState::kSucceeded);
  CHECK(Must(with.client.RunTransfer(Piece("a", "b"))).state == TransferState::kSucceeded);
  with.east.Do({"buffer", "rm", "b"});
  CheckFailed(with.client.RunTransfer(Piece("a", "b")).status(), Code::kNotFound,
              "BUFFER_NOT_FOUND");
  with.east.Do({"buffer", "create", "b", "--size", "64KiB"});
  for (int i = 0; i < 3; ++i) {
    CHECK(Must(with.client.RunTransfer(Piece("a", "b"))).state == TransferState::kSucceeded);
  }
  with.Check();
}

TEST_CASE("after the daemon's end a client is told, and the next daemon serves rings again") {
  Beside with;
  const bool killed = GENERATE(false, true);
  if (killed) {
    with.east.Kill();
  } else {
    CHECK(with.east.Stop() == 0);
  }
  // One that had time to end its rings is known to have gone before anything is asked of it.
  CheckFailed(with.client.RunTransfer(Piece("from", "to")).status(), Code::kUnavailable,
              killed ? "SESSION_LOST" : "DAEMON_UNREACHABLE");
  with.east.Restart();
  Client client = with.east.Connect();
  const onecopy::HostBuffer from = Must(client.CreateHostBuffer("from", kPiece));
  const onecopy::HostBuffer to = Must(client.CreateHostBuffer("to", kPiece));
  TransferInfo last;
  for (int i = 0; i < 3; ++i) last = Must(client.RunTransfer(Piece("from", "to")));
  CHECK(Must(client.GetTransfer(last.id)).receipt.evidence.at("submitted") == "ring");
}
}  // namespace ring_test
