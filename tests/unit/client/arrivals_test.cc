// Watching what arrives, and telling, over real sockets.
#include <thread>

#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/client/client_fixture.h"

namespace arrivals_test {
using namespace onecopy;
using namespace std::chrono_literals;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;

namespace {

struct ArrivalsFixture : testing::ClientFixture {
  explicit ArrivalsFixture(const ServedCluster::Change& change = {}) : ClientFixture(change) {
    daemon.AddBuffer("east", "a", 4096);
    daemon.AddBuffer("west", "b", 4096);
  }
  ArrivalWatch Watch(const std::string& buffer = "a") {
    auto watch = client.WatchArrivals(buffer);
    REQUIRE_OK(watch);
    return std::move(*watch);
  }
  Status Tell(const std::string& message, const std::string& buffer = "a") {
    return client.SendMessage({.destination = {.buffer = buffer}, .message = message});
  }
};

// Waits for the next so many.
std::vector<Arrival> Next(ArrivalWatch& watch, size_t count) {
  std::vector<Arrival> all;
  while (all.size() < count) {
    const auto batch = watch.Wait({}, 20s, count - all.size());
    REQUIRE_OK(batch);
    all.insert(all.end(), batch->arrivals.begin(), batch->arrivals.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a client watches what arrives, waits for it, or takes what is there") {
  ArrivalsFixture rig;
  ArrivalWatch watch = rig.Watch();
  auto none = watch.Poll();
  REQUIRE_OK(none);
  CHECK(none->arrivals.empty());
  const auto done = rig.client.RunTransfer(
      {.source = {"west", "b"}, .destination = {"", "a"}, .message = std::string("\0m", 2)});
  REQUIRE_OK(done);
  REQUIRE(done->state == TransferState::kSucceeded);
  const std::vector<Arrival> told = Next(watch, 1);
  CHECK(told[0].transfer == done->id);
  CHECK(told[0].message == std::string("\0m", 2));
  CHECK(told[0].range == ByteRange{0, 4096});
  for (int i = 0; i < 200; ++i) REQUIRE_OK(rig.Tell(std::to_string(i)));
  const auto messages = Next(watch, 200);
  for (int i = 0; i < 200; ++i) CHECK(messages[i].message == std::to_string(i));
  REQUIRE_OK(watch.Close());
  CHECK(watch.Poll().status().code() == Code::kFailedPrecondition);
  CHECK(rig.Tell("x").reason() == reasons::kNotWatched);
}

TEST_CASE("a wait ends with a stop, or in time, and loses nothing by it") {
  ArrivalsFixture rig;
  ArrivalWatch watch = rig.Watch();
  CHECK(watch.Wait({}, 1ms).status().reason() == reasons::kDeadline);
  std::stop_source stop;
  stop.request_stop();
  CHECK(watch.Wait(stop.get_token()).status().code() == Code::kCancelled);
  std::stop_source later;
  std::thread waits(
      [&] { CHECK(watch.Wait(later.get_token()).status().code() == Code::kCancelled); });
  later.request_stop();
  waits.join();
  REQUIRE_OK(rig.Tell("x"));
  CHECK(Next(watch, 1)[0].message == "x");
}

TEST_CASE("what was taken and dealt with is acknowledged, so that far more comes than fits") {
  ArrivalsFixture rig([](const std::string&, testing::NodePlan& plan) {
    plan.options.limits.arrivals_per_buffer = 4;
  });
  ArrivalWatch watch = rig.Watch();
  size_t refused = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string text = std::to_string(i);
    Status told = rig.Tell(text);
    while (told.reason() == reasons::kQuota) {
      ++refused;
      // Asking again says that what was taken before is dealt with.
      REQUIRE_OK(watch.Poll(0));
      told = rig.Tell(text);
    }
    REQUIRE_OK(told);
    CHECK(Next(watch, 1)[0].message == text);
  }
  INFO(refused << " were refused at first");
  CHECK(watch.Poll()->missed == 0);
}

TEST_CASE("a small transfer with a message goes by no ring, and one without is not told") {
  ArrivalsFixture rig;
  rig.daemon.AddBuffer("east", "c", 4096);
  ArrivalWatch watch = rig.Watch();
  TransferRequest small{.source = {"", "c", 0, 64}, .destination = {"", "a", 0, 64}};
  for (int i = 0; i < 3; ++i) REQUIRE_OK(rig.client.RunTransfer(small));
  small.message = "m";
  for (int i = 0; i < 3; ++i) REQUIRE_OK(rig.client.RunTransfer(small));
  std::vector<std::string> messages;
  while (messages.size() < 3) {
    for (const Arrival& one : Next(watch, 1)) {
      if (!one.message.empty()) messages.push_back(one.message);
    }
  }
  CHECK(messages == std::vector<std::string>(3, "m"));
}

TEST_CASE("what a client registers keeps arrivals, where it asks for that") {
  ArrivalsFixture rig;
  Client keeper = testing::ConnectTo(rig.dir.path(), {.keep_arrivals = true});
  auto kept = keeper.CreateHostBuffer("kept", 4096);
  REQUIRE_OK(kept);
  CHECK(kept->info().keep_arrivals);
  REQUIRE_OK(rig.Tell("1", "kept"));
  REQUIRE_OK(rig.Tell("2", "kept"));
  auto first = keeper.WatchArrivals();
  REQUIRE_OK(first);
  // Both by one wait: another one would say that what came before is dealt with.
  CHECK(Next(*first, 2)[1].message == "2");
  *first = *keeper.WatchArrivals("kept");  // the first one ends without a word
  const auto again = Next(*first, 2);
  CHECK(again[0].message == "1");
  CHECK(again[1].message == "2");
  REQUIRE_OK(first->Close());
  auto third = keeper.WatchArrivals("kept");
  REQUIRE_OK(third);
  REQUIRE_OK(rig.Tell("3", "kept"));
  CHECK(Next(*third, 1)[0].message == "3");
}

TEST_CASE("a watch outlives the Client's name, and ends with its buffer") {
  ArrivalsFixture rig;
  REQUIRE_OK(rig.client.CreateBuffer({.name = "short", .bytes = 4096, .memory = "host"}));
  auto other = std::make_unique<Client>(testing::ConnectTo(rig.dir.path()));
  auto watch = other->WatchArrivals("short");
  REQUIRE_OK(watch);
  other.reset();
  REQUIRE_OK(rig.Tell("last", "short"));
  REQUIRE_OK(rig.client.DeleteBuffer("short"));
  CHECK(Next(*watch, 1)[0].message == "last");
  const Status end = watch->Wait({}, 20s).status();
  CHECK(end.reason() == reasons::kBufferNotFound);
  CHECK(watch->Poll().status().reason() == reasons::kBufferNotFound);
  ArrivalWatch registered = rig.Watch();
  rig.daemon.RemoveBuffer("east", "a");  // with the client that registered it
  CHECK(registered.Wait({}, 20s).status().reason() == reasons::kOwnerDied);
}

TEST_CASE("what cannot be watched or told says why") {
  ArrivalsFixture rig;
  CHECK(rig.client.WatchArrivals("nothing").status().reason() == reasons::kBufferNotFound);
  CHECK(rig.client.WatchArrivals("a\n").status().reason() == reasons::kBadName);
  CHECK(rig.Tell(std::string(4097, 'x')).code() == Code::kInvalidArgument);
  CHECK(rig.Tell("").code() == Code::kInvalidArgument);
  CHECK(rig.Tell("x", "nothing").reason() == reasons::kBufferNotFound);
  ArrivalWatch watch = rig.Watch();
  rig.daemon.StopApi();
  CHECK(watch.Wait({}, 20s).status().code() == Code::kUnavailable);
}
}  // namespace arrivals_test
