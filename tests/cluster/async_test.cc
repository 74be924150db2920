// Many transfers of one thread, by futures and callbacks, over real daemons: by the ring and by
// gRPC.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"

namespace async_test {
namespace {

using onecopy::Client;
using onecopy::CompletionQueue;
using onecopy::HostBuffer;
using onecopy::TransferFuture;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kBytes = 256 * 1024;
constexpr uint64_t kPiece = 4096;
constexpr uint64_t kLarge = uint64_t{64} << 20;
constexpr char kSlow[] = "[tcp]\nlanes = 1\nchunk_bytes = \"4KiB\"\ngets_per_lane = 1\n";

struct Beside {
  Node east{"east"};
  std::optional<Client> client = east.Connect();
  HostBuffer from = Filled(*client, "from", kBytes, 1);
  HostBuffer to = Must(client->CreateHostBuffer("to", kBytes));

  static TransferRequest Piece(uint64_t offset) {
    return {.source = {"", "from", offset, kPiece}, .destination = {"", "to", offset, {}}};
  }
};

bool Succeeded(const onecopy::Result<TransferInfo>& outcome) {
  return outcome.ok() && outcome->state == TransferState::kSucceeded;
}

}  // namespace

TEST_CASE("one thread has hundreds of small pieces under way, which go by the ring") {
  Beside with;
  for (int i = 0; i < 2; ++i) Must(with.client->RunTransfer(Beside::Piece(0)));
  for (int round = 0; round < 4; ++round) {
    std::fill_n(with.to.data(), kBytes, std::byte{0});
    std::vector<TransferFuture> futures;
    for (uint64_t at = 0; at < kBytes; at += kPiece) {
      futures.push_back(Must(with.client->RunTransferAsync(Beside::Piece(at))));
    }
    TransferInfo last;
    for (const TransferFuture& future : futures) {
      last = Must(future.Get());
      REQUIRE(last.state == TransferState::kSucceeded);
      REQUIRE(last.receipt.path == "local");
    }
    REQUIRE(IsPayload(with.to.data(), kBytes, 1));
    CHECK(Must(with.client->GetTransfer(last.id)).receipt.evidence.at("submitted") == "ring");
  }
}

TEST_CASE("futures find the ring by themselves, and more than it holds go all the same") {
  constexpr int kMany = 3000;
  Beside with;
  CompletionQueue queue = Must(CompletionQueue::Make());
  std::mutex mutex;
  std::vector<std::string> wrong;
  for (int i = 0; i < kMany; ++i) {
    Must(with.client->RunTransferAsync(
        Beside::Piece(static_cast<uint64_t>(i) % (kBytes / kPiece) * kPiece),
        {.on_end = [&, i, notify = queue.Notify(1)](const auto& outcome) {
          if (!Succeeded(outcome)) {
            const std::lock_guard<std::mutex> lock(mutex);
            wrong.push_back(std::to_string(i) + ": " + outcome.status().ToString());
          }
          notify(outcome);
        }}));
  }
  int taken = 0;
  WaitUntil("all have ended", [&] {
    while (queue.Take()) ++taken;
    return taken == kMany;
  });
  CHECK(wrong == std::vector<std::string>());
  CHECK(IsPayload(with.to.data(), kBytes, 1));
}

TEST_CASE("several threads begin and wait beside those who only wait") {
  Beside with;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const uint64_t at = static_cast<uint64_t>(t * 50 + i) % (kBytes / kPiece) * kPiece;
        if (t % 2 == 0) {
          if (Succeeded(with.client->RunTransfer(Beside::Piece(at)))) ++good;
          continue;
        }
        const auto future = with.client->RunTransferAsync(Beside::Piece(at));
        if (future.ok() && Succeeded(future->Get())) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 200);
}

TEST_CASE("a small piece that its daemon's end overtakes is told lost, and a new daemon serves") {
  Beside with;
  for (int i = 0; i < 3; ++i) Must(with.client->RunTransfer(Beside::Piece(0)));
  std::vector<TransferFuture> futures;
  {
    const Frozen frozen(with.east);
    for (int i = 0; i < 20; ++i) {
      futures.push_back(Must(with.client->RunTransferAsync(Beside::Piece(0))));
    }
    with.east.Kill();
  }
  for (const TransferFuture& future : futures) {
    CHECK(future.Get().status().reason() == "SESSION_LOST");
  }
  with.east.Restart();
  for (int i = 0; i < 3; ++i) {
    REQUIRE(Succeeded(Must(with.client->RunTransferAsync(Beside::Piece(0))).Get()));
  }
  CHECK(with.client->session().number == 2);
}

TEST_CASE("who only asks whether a small piece is done learns of its daemon's end") {
  Beside with;
  for (int i = 0; i < 3; ++i) Must(with.client->RunTransfer(Beside::Piece(0)));
  std::optional<TransferFuture> future;
  {
    const Frozen frozen(with.east);
    future = Must(with.client->RunTransferAsync(Beside::Piece(0)));
    CHECK_FALSE(future->done());
    CHECK_FALSE(future->Latest().has_value());
    with.east.Kill();
  }
  WaitUntil("it has ended", [&] { return future->done(); });
  CHECK(future->Get().status().reason() == "SESSION_LOST");
}

TEST_CASE("small pieces that nobody asks about arrive, and keep no place on the ring") {
  Beside with;
  for (int i = 0; i < 2; ++i) Must(with.client->RunTransfer(Beside::Piece(0)));
  for (int i = 0; i < 5000; ++i) {
    Must(with.client->RunTransferAsync(
        Beside::Piece(static_cast<uint64_t>(i) % (kBytes / kPiece) * kPiece)));
  }
  // As soon as the daemon has come to the end of them: until then a full ring is no wonder.
  WaitUntil("the ring has room", [&] {
    const TransferInfo last = Must(Must(with.client->RunTransferAsync(Beside::Piece(0))).Get());
    const auto evidence = Must(with.client->GetTransfer(last.id)).receipt.evidence;
    const auto submitted = evidence.find("submitted");
    return submitted != evidence.end() && submitted->second == "ring";
  });
  CHECK(IsPayload(with.to.data(), kBytes, 1));
}

TEST_CASE("what the ring refuses of a small piece is told with its reason") {
  Beside with;
  for (int i = 0; i < 2; ++i) Must(with.client->RunTransfer(Beside::Piece(0)));
  TransferRequest beyond = Beside::Piece(kBytes - kPiece);
  beyond.destination.offset_bytes = kBytes - 1;
  CHECK(Must(with.client->RunTransferAsync(beyond)).Get().status().reason() ==
        "RANGE_OUT_OF_BUFFER");
  std::optional<TransferFuture> future;
  {
    const Frozen frozen(with.east);
    future = Must(with.client->RunTransferAsync(Beside::Piece(0)));
  }
  CHECK(Succeeded(future->Get()));
  REQUIRE(with.client->DeleteBuffer("to").ok());
  CHECK(Must(with.client->RunTransferAsync(Beside::Piece(0))).Get().status().reason() ==
        "BUFFER_NOT_FOUND");
}

TEST_CASE("small pieces under way when their client goes are told so, by and by they arrive") {
  Beside with;
  Client other = with.east.Connect();
  for (int i = 0; i < 3; ++i) Must(other.RunTransfer(Beside::Piece(0)));
  std::optional<TransferFuture> under_way;
  {
    const Frozen frozen(with.east);
    under_way = Must(other.RunTransferAsync(Beside::Piece(kPiece)));
    const Client gone = std::move(other);
  }
  REQUIRE(under_way->done());
  CHECK(under_way->Get().status().reason() == "CANCELLED");
  CHECK(Succeeded(with.client->RunTransfer(Beside::Piece(0))));
}

TEST_CASE("ranges that are asked for without a copy are folded, and told as asked for") {
  Beside with;
  auto request = std::make_shared<TransferRequest>(
      TransferRequest{.source = with.from.endpoint(), .destination = with.to.endpoint()});
  for (uint64_t i = 0; i < 1000; ++i) request->ranges.push_back({{i * 100, 10}, {i * 90, 10}});
  const std::shared_ptr<const TransferRequest> shared = request;
  for (int i = 0; i < 2; ++i) {
    const TransferInfo done = Must(Must(with.client->RunTransferAsync(shared)).Get());
    CHECK(done.state == TransferState::kSucceeded);
    CHECK(done.bytes == 10'000);
    CHECK(done.receipt.ranges == 1000);
  }
  auto many = std::make_shared<TransferRequest>(*shared);
  many->ranges.resize(onecopy::kMaxRanges + 1, many->ranges[0]);
  CHECK(with.client->RunTransferAsync(std::shared_ptr<const TransferRequest>(many))
            .status()
            .reason() == "BAD_ARGUMENT");
}

TEST_CASE("large transfers under way when the daemon dies all end, and later ones run again") {
  Pair pair(kSlow);
  Client client = pair.east.Connect();
  Client other = pair.west.Connect();
  const HostBuffer from = Filled(client, "from", kLarge, 3);
  const HostBuffer to = Must(other.CreateHostBuffer("to", kLarge));
  std::vector<TransferFuture> futures;
  for (int i = 0; i < 20; ++i) {
    futures.push_back(Must(client.RunTransferAsync(
        {.source = {"", "from", i * 4096, 1 << 20}, .destination = {"west", "to", i << 20, {}}})));
  }
  const TransferFuture large = Must(client.RunTransferAsync(
      {.source = {"", "from"}, .destination = to.endpoint()}, {.on_update = [](const auto&) {}}));
  WaitUntil("the large one is known", [&] { return large.Latest().has_value(); });
  pair.east.Kill();
  for (const TransferFuture& future : futures) {
    const auto outcome = future.Get();
    const bool known = Succeeded(outcome) || outcome.status().reason() == "SESSION_LOST" ||
                       outcome.status().reason() == "DAEMON_UNREACHABLE";
    CHECK(known);
  }
  CHECK(large.Get().status().reason() == "SESSION_LOST");
  const auto nobody =
      Must(client.RunTransferAsync({.source = {"", "from"}, .destination = {"", "x"}}));
  CHECK(nobody.Get().status().reason() == "DAEMON_UNREACHABLE");
  pair.east.Restart();
  pair.east.WaitForPeer("west");
  const TransferFuture again = Must(client.RunTransferAsync(
      {.source = {"", "from", 0, kPiece}, .destination = to.endpoint(0, kPiece)}));
  CHECK(Succeeded(again.Get()));
}

TEST_CASE("a child has its parent's futures as they were, and waits for none") {
  Beside with;
  const TransferFuture ended = Must(with.client->RunTransferAsync(Beside::Piece(0)));
  REQUIRE(Succeeded(ended.Get()));
  std::optional<Frozen> frozen(std::in_place, with.east);
  const TransferFuture under_way = Must(with.client->RunTransferAsync(Beside::Piece(0)));
  std::thread waiting([&] { static_cast<void>(under_way.Get()); });
  CHECK(InChild([&] {
          if (!Succeeded(ended.Get())) return 1;
          if (under_way.Get().status().reason() != "FORKED") return 2;
          if (under_way.WaitFor(std::chrono::hours(1)) || under_way.Latest()) return 3;
          under_way.Cancel();
          if (with.client->RunTransferAsync(Beside::Piece(0)).status().reason() != "FORKED")
            return 4;
          with.client.reset();
          return 0;
        }) == 0);
  frozen.reset();
  waiting.join();
  CHECK(Succeeded(under_way.Get()));
  CHECK(Succeeded(with.client->RunTransfer(Beside::Piece(0))));
}
}  // namespace async_test
