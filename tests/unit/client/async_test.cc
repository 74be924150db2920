// Futures and callbacks, against a daemon whose transfers can be held.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/client/client_fixture.h"

namespace async_test {
using onecopy::Client;
using onecopy::Code;
using onecopy::CompletionQueue;
using onecopy::Result;
using onecopy::Status;
using onecopy::TransferFuture;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;

namespace {

struct AsyncFixture : onecopy::testing::CopyFixture {
  TransferFuture Begin(const TransferRequest& request, onecopy::TransferCallbacks callbacks = {}) {
    auto future = client.RunTransferAsync(request, std::move(callbacks));
    REQUIRE_OK(future);
    return *std::move(future);
  }
};

TransferState StateOf(const Result<TransferInfo>& outcome) {
  return outcome.ok() ? outcome->state : TransferState::kUnknown;
}

}  // namespace

TEST_CASE("one thread has many transfers under way, and another one alone runs the callbacks") {
  constexpr int kMany = 16;
  AsyncFixture f;
  f.daemon.Hold();
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> ended = 0;
  std::vector<TransferFuture> futures;
  for (int i = 0; i < kMany; ++i) {
    futures.push_back(f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto& outcome) {
                                const std::lock_guard lock(mutex);
                                threads.insert(std::this_thread::get_id());
                                if (StateOf(outcome) == TransferState::kSucceeded) ++ended;
                              }}));
  }
  f.daemon.AwaitRunning(kMany);
  for (const TransferFuture& future : futures) CHECK_FALSE(future.done());
  CHECK_FALSE(futures[0].WaitFor(std::chrono::milliseconds(1)));
  f.daemon.Release();
  for (const TransferFuture& future : futures) {
    const auto outcome = future.Get();
    REQUIRE_OK(outcome);
    CHECK(outcome->state == TransferState::kSucceeded);
    CHECK(outcome->receipt.bytes_per_second > 0);
    REQUIRE(future.Latest().has_value());
    CHECK(future.Latest()->id == outcome->id);
  }
  f.EndClient();  // every callback has returned
  CHECK(ended == kMany);
  REQUIRE(threads.size() == 1);
  CHECK(*threads.begin() != std::this_thread::get_id());
}

TEST_CASE("updates come before the end, with the transfer's id") {
  AsyncFixture f;
  std::vector<TransferInfo> updates;
  std::promise<TransferInfo> last;
  const TransferFuture future = f.Begin(
      AsyncFixture::Over(), {.on_update = [&](const auto& now) { updates.push_back(now); },
                             .on_end = [&](const auto& outcome) { last.set_value(*outcome); }});
  const TransferInfo ended = last.get_future().get();
  CHECK(future.done());
  REQUIRE_FALSE(updates.empty());
  for (const TransferInfo& update : updates) CHECK(update.id == ended.id);
  CHECK(updates.back().state == TransferState::kSucceeded);
}

TEST_CASE("what the daemon refuses is the future's outcome, with its reason") {
  AsyncFixture f;
  std::promise<Status> told;
  TransferRequest request = AsyncFixture::Over();
  request.source.buffer = "none";
  const TransferFuture future =
      f.Begin(request, {.on_end = [&](const auto& outcome) { told.set_value(outcome.status()); }});
  CHECK(told.get_future().get().reason() == onecopy::reasons::kBufferNotFound);
  CHECK(future.Get().status().reason() == onecopy::reasons::kBufferNotFound);
  CHECK_FALSE(future.Latest().has_value());
  request.source.buffer = "\n";
  CHECK(f.client.RunTransferAsync(request).status().reason() == onecopy::reasons::kBadName);
}

TEST_CASE("what cannot be asked for is refused at once, as by RunTransfer") {
  AsyncFixture with;
  TransferRequest request = AsyncFixture::Over();
  request.ranges.resize(onecopy::kMaxRanges + 1, {{0, 1, 0, 1}, {0, 1, 0, 1}});
  const Status refused = with.client.RunTransferAsync(request).status();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message() == with.client.RunTransfer(request).status().message());
  CHECK(refused.message().find(std::to_string(onecopy::kMaxRanges + 1)) != std::string::npos);
}

TEST_CASE("regular ranges are counted as they were asked for, in a future, too") {
  AsyncFixture with;
  TransferRequest request = AsyncFixture::Over();
  for (uint64_t i = 0; i < 64; ++i) request.ranges.push_back({{i * 16, 8}, {i * 8, 8}});
  const auto waited = with.client.RunTransfer(request);
  REQUIRE_OK(waited);
  const auto future = with.Begin(request).Get();
  REQUIRE_OK(future);
  CHECK(future->state == TransferState::kSucceeded);
  CHECK(future->receipt.ranges == 64);
  CHECK(future->receipt.ranges == waited->receipt.ranges);
  CHECK(future->bytes == waited->bytes);
}

TEST_CASE("what is only to be planned comes with its plan") {
  AsyncFixture f;
  TransferRequest request = AsyncFixture::Over();
  request.validate_only = true;
  const auto planned = f.Begin(request).Get();
  REQUIRE_OK(planned);
  CHECK(planned->plan.has_value());
}

TEST_CASE("a future cancels its transfer, and is done when that has let go") {
  AsyncFixture f;
  f.daemon.Hold();
  const TransferFuture future = f.Begin(AsyncFixture::Over());
  f.daemon.AwaitHeld(1);
  future.Cancel();
  future.Cancel();  // once is as good
  f.daemon.AwaitCancelRequested();
  f.daemon.Release();
  const auto outcome = future.Get();
  REQUIRE_OK(outcome);
  CHECK(outcome->state == TransferState::kCancelled);
  future.Cancel();
}

TEST_CASE("a transfer that somebody else has started is awaited by its id") {
  AsyncFixture f;
  f.daemon.Hold();
  const auto started = f.client.StartTransfer(AsyncFixture::Over());
  REQUIRE_OK(started);
  auto future = f.client.AwaitTransferAsync(started->id);
  REQUIRE_OK(future);
  f.daemon.AwaitHeld(1);
  CHECK_FALSE(future->done());
  f.daemon.Release();
  CHECK(StateOf(future->Get()) == TransferState::kSucceeded);
  const auto unknown = f.client.AwaitTransferAsync(onecopy::TransferId("none"));
  REQUIRE_OK(unknown);
  CHECK(unknown->Get().status().reason() == onecopy::reasons::kTransferNotFound);
}

TEST_CASE("a Client's end ends its futures, and not its transfers") {
  AsyncFixture f;
  f.daemon.Hold();
  std::atomic<int> told = 0;
  std::vector<TransferFuture> futures;
  for (int i = 0; i < 3; ++i) {
    futures.push_back(f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto& outcome) {
                                if (outcome.status().code() == Code::kCancelled) ++told;
                              }}));
  }
  f.daemon.AwaitRunning(3);
  f.EndClient();
  CHECK(told == 3);
  for (const TransferFuture& future : futures) {
    REQUIRE(future.done());
    CHECK(future.Get().status().reason() == onecopy::reasons::kCancelled);
    future.Cancel();  // of nothing any more
  }
  f.daemon.Release();
  Client other = onecopy::testing::ConnectTo(f.dir.path());
  const auto transfers = f.daemon.transfers();
  REQUIRE(transfers.size() == 3);
  for (const TransferInfo& transfer : transfers) {
    CHECK(StateOf(other.AwaitTransfer(transfer.id)) == TransferState::kSucceeded);
  }
}

TEST_CASE("a Client may be destroyed by a callback of its own") {
  AsyncFixture f;
  f.daemon.Hold();
  std::promise<void> first_told;
  std::promise<void> second_told;
  TransferFuture second;
  const TransferFuture first = f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto&) {
                                         f.EndClient();
                                         first_told.set_value();
                                       }});
  second = f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto&) { second_told.set_value(); }});
  f.daemon.AwaitRunning(2);
  first.Cancel();
  f.daemon.AwaitCancelRequested();
  f.daemon.Release();
  second_told.get_future().wait();
  first_told.get_future().wait();  // the one or the other is told first
  CHECK(first.done());
  CHECK(second.done());
}

TEST_CASE("a moved Client keeps its futures, and one that is assigned over ends its own") {
  AsyncFixture f;
  f.daemon.Hold();
  const TransferFuture future = f.Begin(AsyncFixture::Over());
  Client other = onecopy::testing::ConnectTo(f.dir.path());
  const auto others = other.RunTransferAsync(AsyncFixture::Over());
  REQUIRE_OK(others);
  f.daemon.AwaitRunning(2);
  other = std::move(f.client);
  f.EndClient();
  CHECK(others->Get().status().code() == Code::kCancelled);
  CHECK_FALSE(future.done());
  f.daemon.Release();
  CHECK(StateOf(future.Get()) == TransferState::kSucceeded);
}

TEST_CASE("an exception that leaves a callback is kept, and changes nothing else") {
  AsyncFixture f;
  std::promise<void> after;
  const TransferFuture thrown = f.Begin(
      AsyncFixture::Over(), {.on_end = [](const auto&) { throw std::runtime_error("oh"); }});
  CHECK(StateOf(thrown.Get()) == TransferState::kSucceeded);
  const TransferFuture next =
      f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto&) { after.set_value(); }});
  after.get_future().wait();
  CHECK(StateOf(next.Get()) == TransferState::kSucceeded);
  CHECK(next.callback_status().ok());
  CHECK(thrown.callback_status().code() == Code::kInternal);
  CHECK(thrown.callback_status().message().find("oh") != std::string::npos);
}

TEST_CASE("a callback may call the client and begin others, but not wait for them") {
  AsyncFixture f;
  std::promise<Status> waited;
  std::promise<TransferFuture> begun;
  f.Begin(AsyncFixture::Over(), {.on_end = [&](const auto&) {
            CHECK(f.client.Ping().ok());
            TransferFuture next = f.Begin(AsyncFixture::Over());
            waited.set_value(next.Get().status());
            begun.set_value(std::move(next));
          }});
  CHECK(waited.get_future().get().reason() == onecopy::reasons::kCalledFromCallback);
  CHECK(StateOf(begun.get_future().get().Get()) == TransferState::kSucceeded);
}

TEST_CASE("an event loop has a descriptor that is readable while something has ended") {
  constexpr int kMany = 5;
  AsyncFixture f;
  auto queue = CompletionQueue::Make();
  REQUIRE_OK(queue);
  CHECK_FALSE(queue->Take().has_value());
  pollfd polled{queue->fd(), POLLIN, 0};
  CHECK(::poll(&polled, 1, 0) == 0);
  for (uint64_t i = 0; i < kMany; ++i) {
    f.Begin(AsyncFixture::Over(), {.on_end = queue->Notify(i)});
  }
  std::set<uint64_t> tags;
  while (tags.size() < kMany) {
    REQUIRE(::poll(&polled, 1, -1) == 1);
    while (auto ended = queue->Take()) {
      CHECK(StateOf(ended->outcome) == TransferState::kSucceeded);
      CHECK(tags.insert(ended->tag).second);
    }
  }
  CHECK(::poll(&polled, 1, 0) == 0);
  const auto forgotten = queue->Notify(9);
  *queue = *CompletionQueue::Make();
  forgotten(Status(Code::kCancelled, onecopy::reasons::kCancelled, "nobody takes it"));
  CHECK_FALSE(queue->Take().has_value());
}

TEST_CASE("a forked child takes nothing from its parent's event loop") {
  auto queue = CompletionQueue::Make();
  REQUIRE_OK(queue);
  queue->Notify(7)(Status(Code::kCancelled, onecopy::reasons::kCancelled, "over"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(queue->Take().has_value() ? 1 : 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  pollfd polled{queue->fd(), POLLIN, 0};
  CHECK(::poll(&polled, 1, 0) == 1);
  const auto ended = queue->Take();
  REQUIRE(ended.has_value());
  CHECK(ended->tag == 7);
}

TEST_CASE("futures of a daemon that goes end with what is known") {
  std::optional<AsyncFixture> f(std::in_place);
  f->daemon.Hold();
  std::vector<TransferFuture> futures;
  for (int i = 0; i < 4; ++i) futures.push_back(f->Begin(AsyncFixture::Over()));
  f->daemon.AwaitRunning(4);
  f->daemon.StopApi();
  for (const TransferFuture& future : futures) {
    CHECK(future.Get().status().code() == Code::kUnavailable);
  }
}
}  // namespace async_test
