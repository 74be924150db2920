// Rate limits and priorities of [qos]. That a limit is kept is held against the clock, from above
// alone: what is slower than it may be proves nothing here.
#include <signal.h>

#include <chrono>
#include <string>

#include "tests/cluster/neighbours.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace limits_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string LimitOf(uint32_t uid, const std::string& rate) {
  return "[qos.slow]\nusers = \"" + std::to_string(uid) + "@*\"\nrate_limit = \"" + rate + "\"\n";
}

void Reload(Node& node, const std::string& config) {
  const auto reloads = [&] {
    size_t count = 0;
    const std::string log = node.Log();
    for (size_t at = 0; (at = log.find("the configuration was reloaded", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  };
  const size_t before = reloads();
  WriteFile(node.folder() / "config.toml", "version = 1\n" + config);
  node.process().Signal(SIGHUP);
  WaitUntil("the configuration is read again", [&] { return reloads() > before; });
}

// Bytes per second, while it moves that many.
double RateOf(Neighbour& neighbour, uint64_t bytes) {
  const uint64_t before = neighbour.Count();
  const Clock::time_point begun = Clock::now();
  WaitUntil("its bytes have moved", [&] { return neighbour.Count() >= before + bytes; });
  const std::chrono::duration<double> took = Clock::now() - begun;
  const double rate = static_cast<double>(neighbour.Count() - before) / took.count();
  WARN(rate / kMiB << " MiB/s");
  return rate;
}

// What counts is whole transfers: those that were under way at the beginning.
constexpr double kSome = 1.3;

}  // namespace

TEST_CASE("inside a node a user's transfers keep its limit together until a reload lifts it") {
  REQUIRE_ROOT();
  Node node("east", {.config = LimitOf(kOther, "64MiB")});
  OpenTo(node);
  CreateForTwo(node, 16 * kMiB);
  Neighbour limited(kOther, node, "from2", "to2", 2 * kMiB, 8);
  Neighbour other(kOwner, node, "from1", "to1", 2 * kMiB, 8);
  limited.Begin();
  CHECK(RateOf(limited, 128 * kMiB) < kSome * 64 * kMiB);
  other.Begin();
  const uint64_t before = limited.Count();
  (void)RateOf(other, 2048 * kMiB);
  CHECK(limited.Count() - before < 1024 * kMiB);
  Reload(node, "");
  const uint64_t then = other.Count();
  WaitUntil("it moves as fast as it can", [&] { return limited.Count() > before + 2048 * kMiB; });
  CHECK(other.Count() - then < 16 * 2048 * kMiB);
  Reload(node, LimitOf(kOther, "64MiB"));
  (void)RateOf(limited, 64 * kMiB);  // what had begun
  CHECK(RateOf(limited, 128 * kMiB) < kSome * 64 * kMiB);
}

TEST_CASE("transfers one after the other keep a limit as those at a time do") {
  REQUIRE_ROOT();
  Node node("east", {.config = LimitOf(kOther, "64MiB")});
  OpenTo(node);
  CreateWritten(kOther, node, "from", 16 * kMiB);
  CreateWritten(kOther, node, "to", 16 * kMiB);
  Neighbour limited(kOther, node, "from", "to", kMiB / 2, 1);
  limited.Begin();
  (void)RateOf(limited, 8 * kMiB);  // what may go in advance
  CHECK(RateOf(limited, 64 * kMiB) < kSome * 64 * kMiB);
}

TEST_CASE("between nodes the destination's node keeps the limit and the receipt tells of it") {
  REQUIRE_ROOT();
  Pair nodes(LimitOf(kOther, "64MiB"));
  OpenTo(nodes.west);
  OpenTo(nodes.east);
  CreateWritten(kOther, nodes.west, "from", 64 * kMiB);
  CreateWritten(kOther, nodes.east, "to", 64 * kMiB);
  for (const char* path : {"tcp-direct", "tcp-staged"}) {
    INFO(path);
    const Clock::time_point begun = Clock::now();
    const Json done = CommandAs(kOther, nodes.east, {"cp", "west:from", "to", "--path", path});
    CHECK(Clock::now() - begun > std::chrono::milliseconds(900));
    const Json& evidence = done.at("evidence");
    CHECK(evidence.value("rate_limit", "") == "67.11 MB/s for user 65534@east");
    CHECK(std::stoi(evidence.value("rate_limit_held_ms", "0")) > 0);
  }
}

TEST_CASE("a request's own limit holds for all of its parts and says so") {
  REQUIRE_ROOT();
  Node node("east");
  OpenTo(node);
  CreateWritten(kOther, node, "from", 64 * kMiB);
  CreateWritten(kOther, node, "to", 64 * kMiB);
  const Clock::time_point begun = Clock::now();
  const Json done = CommandAs(kOther, node, {"cp", "from", "to", "--rate-limit", "64MiB"});
  CHECK(Clock::now() - begun > std::chrono::milliseconds(900));
  CHECK(done.at("evidence").value("rate_limit", "") == "67.11 MB/s for this transfer");
  // By windows of the client, each of which is a transfer.
  const Clock::time_point then = Clock::now();
  (void)CommandAs(kOther, node, {"cp", "-", "to", "--rate-limit", "64MiB"},
                  std::string(64 * kMiB, 'x'));
  CHECK(Clock::now() - then > std::chrono::milliseconds(900));
  CHECK(RunAs(kOther, node, {"cp", "from", "to", "--rate-limit", "1000"}).exit_status == 2);
  CHECK(RunAs(kOther, node, {"cp", "from", "to", "--priority", "urgent"}).exit_status == 2);
  CHECK(CommandAs(kOther, node, {"cp", "from", "to", "--priority", "low"}).contains("path"));
}

TEST_CASE("small transfers of a user who is limited meanwhile keep the limit") {
  REQUIRE_ROOT();
  Pair nodes("# a file that is read again\n");
  OpenTo(nodes.west);
  OpenTo(nodes.east);
  CreateWritten(kOther, nodes.west, "there", kMiB);
  CreateWritten(kOther, nodes.east, "here", kMiB);
  CreateWritten(kOther, nodes.east, "also", kMiB);
  Neighbour inside(kOther, nodes.east, "here", "also", 32768, 4);
  Neighbour from(kOther, nodes.east, "west:there", "also", 32768, 4);
  Neighbour into(kOther, nodes.west, "there", "east:also", 32768, 4);
  for (Neighbour* one : {&inside, &from, &into}) one->Begin();
  for (Neighbour* one : {&inside, &from, &into}) (void)RateOf(*one, 16 * kMiB);
  Reload(nodes.east, LimitOf(kOther, "1MiB"));
  for (Neighbour* one : {&inside, &from, &into}) (void)RateOf(*one, kMiB / 4);
  // Users of the two nodes are two, with a limit each.
  const uint64_t before = inside.Count() + from.Count();
  const Clock::time_point begun = Clock::now();
  CHECK(RateOf(into, 2 * kMiB) < kSome * kMiB);
  const std::chrono::duration<double> took = Clock::now() - begun;
  CHECK(static_cast<double>(inside.Count() + from.Count() - before) <
        kSome * kMiB * took.count() + kMiB);
}

TEST_CASE("a high priority takes what there is and gives it back when it has nothing to move") {
  REQUIRE_ROOT();
  Node node("east", {.config = "[qos.first]\nusers = \"" + std::to_string(kOwner) +
                               "\"\npriority = \"high\"\n"});
  OpenTo(node);
  CreateForTwo(node, 128 * kMiB);
  Neighbour other(kOther, node, "from2", "to2", 32 * kMiB, 16);
  other.Begin();
  (void)RateOf(other, 1024 * kMiB);
  uint64_t before = 0;
  uint64_t moved = 0;
  {
    Neighbour first(kOwner, node, "from1", "to1", 32 * kMiB, 16);
    first.Begin();
    (void)RateOf(first, 512 * kMiB);
    before = other.Count();
    (void)RateOf(first, 8192 * kMiB);
    moved = other.Count() - before;
    WARN(moved / kMiB << " MiB of the other's meanwhile");
    CHECK(moved < 2048 * kMiB);
  }
  (void)RateOf(other, 1024 * kMiB);
}

}  // namespace limits_test
