// What arrives in buffers, and messages: who is told, when, and that nothing is lost or told twice.
#include "onecopy/arrival.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "tests/unit/engine/arriving.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a watch is told of each transfer that has written, with its message, and of messages") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  REQUIRE_OK(watch.opened());
  CHECK(watch.Take().empty());
  const std::string binary("\0\xff\n17", 5);
  const auto first = rig.Write(binary);
  REQUIRE_OK(first);
  REQUIRE(first->state == TransferState::kSucceeded);
  TransferRequest part = Request("west:b@16+100", "east:a@1000");
  const auto second = rig.west.Copy(rig.abroad, part);
  REQUIRE_OK(second);
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:a", "alone"));
  CHECK(watch.news() == 3);

  const std::vector<Arrival> told = watch.Take();
  REQUIRE(told.size() == 3);
  CHECK(told[0].transfer == first->id);
  CHECK(told[0].message == binary);
  CHECK(told[0].buffer == "a");
  CHECK_FALSE(told[0].buffer_id.empty());
  CHECK(told[0].from == "1000@west");
  CHECK(told[0].range == ByteRange{0, kArrivingBytes});
  CHECK(told[0].bytes == kArrivingBytes);
  CHECK(told[0].time >= first->create_time - 1h);
  CHECK(told[1].transfer == second->id);
  CHECK(told[1].message.empty());
  CHECK(told[1].range == ByteRange{1000, 100});
  CHECK(told[2].transfer.empty());
  CHECK(told[2].message == "alone");
  CHECK(told[2].bytes == 0);
  CHECK(told[1].sequence == told[0].sequence + 1);
  CHECK(told[2].sequence == told[1].sequence + 1);
  CHECK(watch.Take().empty());
  CHECK(watch.missed == 0);
}

TEST_CASE("ranges arrive as one, from the first byte to the last") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  TransferRequest request = Request("west:b", "east:a");
  request.message = "many";
  request.ranges = {{{0, 10}, {100, 10}}, {{50, 10}, {300, 10}}};
  const auto made = rig.west.Start(rig.abroad, request);
  REQUIRE_OK(made);
  REQUIRE(rig.west.Wait(rig.abroad, made->id).state == TransferState::kSucceeded);
  const auto told = watch.Take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].range == ByteRange{100, 210});
  CHECK(told[0].bytes == 20);
}

TEST_CASE("several watches are each told everything once, also of one's own transfers") {
  Arriving rig;
  Watching one(rig.east, rig.alice, "a");
  Watching two(rig.east, rig.east.Attach(), "a");
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "c", kArrivingBytes));
  TransferRequest inside = Request("east:c", "east:a");
  inside.message = "inside";
  REQUIRE_OK(rig.east.Copy(rig.alice, inside));
  REQUIRE_OK(rig.Write("from west"));
  const Texts both = {"inside", "from west"};
  CHECK(one.Messages() == both);
  CHECK(two.Messages() == both);
  one.End();
  REQUIRE_OK(rig.Write("later"));
  CHECK(one.Messages().empty());
  CHECK(two.Messages() == Texts{"later"});
}

TEST_CASE("a transfer that fails tells nobody, and its room is free again") {
  Arriving rig([](const std::string&, NodePlan& plan) { plan.options.limits.arrivals = {1, 2}; });
  Watching watch(rig.east, rig.alice, "a");
  rig.cluster.FailCalls("Prepare", {Code::kPermissionDenied, reasons::kNotOwner, "not today"});
  for (int i = 0; i < 3; ++i) {
    const auto failed = rig.Write("never");
    REQUIRE_OK(failed);
    CHECK(failed->state == TransferState::kFailed);
  }
  rig.cluster.AllowCalls("Prepare");
  REQUIRE_OK(rig.Write("now"));
  CHECK(watch.Messages() == Texts{"now"});
}

TEST_CASE("where the watch has gone when the bytes come, the receipt says that nobody was told") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  rig.cluster.HoldCalls("Finish");
  TransferRequest request = Request("west:b", "east:a");
  request.message = "late";
  const auto started = rig.west.Start(rig.abroad, request);
  REQUIRE_OK(started);
  watch.End();
  rig.cluster.ReleaseCalls();
  const TransferInfo ended = rig.west.Wait(rig.abroad, started->id);
  REQUIRE(ended.state == TransferState::kSucceeded);
  CHECK(ended.receipt.evidence.contains("message"));
}

TEST_CASE("nobody is told before all bytes are there") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  rig.cluster.HoldCalls("Finish");
  TransferRequest request = Request("west:b", "east:a");
  request.message = "17";
  request.checksum = true;
  const auto started = rig.west.Start(rig.abroad, request);
  REQUIRE_OK(started);
  while (rig.cluster.calls("Finish") == 0) std::this_thread::yield();
  CHECK(watch.Take().empty());
  rig.cluster.ReleaseCalls();
  REQUIRE(rig.west.Wait(rig.abroad, started->id).state == TransferState::kSucceeded);
  CHECK(watch.Messages() == Texts{"17"});
}

TEST_CASE(
    "a buffer that keeps arrivals tells its next watch, and again what was not acknowledged") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  REQUIRE_OK(rig.Write("1", "east:k"));
  REQUIRE_OK(rig.Write("", "east:k"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "3"));
  {
    Watching watch(rig.east, rig.alice, "k");
    CHECK(watch.Messages() == Texts{"1", "", "3"});
    REQUIRE_OK(watch.Acknowledge(1));
    REQUIRE_OK(watch.Acknowledge(1));  // late, and no mistake
    REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "4"));
  }
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "5"));
  Watching again(rig.east, rig.alice, "k");
  const auto told = again.Take();
  REQUIRE(told.size() == 4);
  for (uint64_t i = 0; i < 4; ++i) CHECK(told[i].sequence == i + 2);
  REQUIRE_OK(again.Acknowledge(4));
  again.End();
  CHECK(Watching(rig.east, rig.alice, "k").Take().empty());
}

TEST_CASE("what one watch had and did not acknowledge is told to one that came later, once") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  Watching first(rig.east, rig.alice, "k");
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "1"));
  Watching second(rig.east, rig.alice, "k");
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "2"));
  CHECK(first.Messages() == Texts{"1", "2"});
  CHECK(second.Messages() == Texts{"2"});
  first.End();
  CHECK(second.Messages() == Texts{"1"});
}

TEST_CASE("one watch tells what arrives in all that its session registers, and in nothing else") {
  Arriving rig;
  auto before = rig.east.Register(rig.alice, "before", 4096);
  REQUIRE_OK(before);
  Watching watch(rig.east, rig.alice, "");
  REQUIRE_OK(watch.opened());
  auto after = rig.east.Register(rig.alice, "after", 4096);
  REQUIRE_OK(after);
  const Principal other = rig.east.Attach();
  auto others = rig.east.Register(other, "others", 4096);
  REQUIRE_OK(others);
  Watching beside(rig.east, other, "");
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:after", "1"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:others", "2"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:before", "3"));
  CHECK(Tell(rig.west, rig.abroad, "east:a", "4").reason() == reasons::kNotWatched);
  const auto told = watch.Take();
  REQUIRE(told.size() == 2);
  CHECK(told[0].buffer == "after");
  CHECK(told[1].buffer == "before");
  CHECK(beside.Messages() == Texts{"2"});
}

TEST_CASE("a buffer that goes ends its watches, when they have told what came before") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  REQUIRE_OK(rig.Write("last"));
  REQUIRE_OK(Done(rig.east, [&](ClientApi& api, auto reply) {
    api.DeleteBuffer(rig.alice, "", "a", false, std::move(reply));
  }));
  CHECK(watch.Messages() == Texts{"last"});
  CHECK(watch.end.code() == Code::kNotFound);
  CHECK(watch.end.reason() == reasons::kBufferNotFound);
  // Another one of that name is another one.
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "a", kArrivingBytes));
  CHECK(Tell(rig.west, rig.abroad, "east:a", "x").reason() == reasons::kNotWatched);
}

TEST_CASE("a session that ends has its watches ended, and what it kept is the next one's") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  const Principal first = rig.east.Attach();
  Watching watch(rig.east, first, "k");
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "1"));
  CHECK(watch.Messages() == Texts{"1"});
  rig.east.Detach(first);
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "2"));
  CHECK(watch.Messages().empty());
  CHECK(watch.end.reason() == reasons::kNoSession);
  CHECK(Watching(rig.east, rig.alice, "k").Messages() == Texts{"1", "2"});
}

TEST_CASE("a session that ends with two watches gives back once what both had, in its order") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  const Principal first = rig.east.Attach();
  Watching one(rig.east, first, "k");
  Watching two(rig.east, first, "k");
  for (const char* text : {"1", "2", "3"}) REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", text));
  CHECK(one.Messages() == Texts{"1", "2", "3"});
  REQUIRE_OK(one.Acknowledge(1));
  rig.east.Detach(first);
  Watching next(rig.east, rig.alice, "k");
  CHECK(next.Messages() == Texts{"1", "2", "3"});
  REQUIRE_OK(next.Acknowledge(3));
}

TEST_CASE("what several watches in turn did not acknowledge is told to those that are left, once") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "1"));
  for (int i = 0; i < 3; ++i) {
    CHECK(Watching(rig.east, rig.alice, "k").Messages() == Texts{"1"});
  }
  Watching one(rig.east, rig.alice, "k");
  Watching two(rig.east, rig.alice, "k");
  Watching three(rig.east, rig.alice, "k");
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:k", "2"));
  CHECK(one.Messages() == Texts{"1", "2"});
  one.End();
  CHECK(two.Messages() == Texts{"1", "2"});
  two.End();
  CHECK(three.Messages() == Texts{"1", "2"});
  three.End();
  CHECK(Watching(rig.east, rig.alice, "k").Messages() == Texts{"1", "2"});
}
