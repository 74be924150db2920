// What becomes of transfers and devices when the wire, the peer or the device fails.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/cluster/receipts.h"
#include "tests/rdma/rdma_pair.h"
#include "tests/support/catch.h"
#include "tests/support/lent_verbs.h"

namespace faults_test {

using onecopy::Client;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBytes = uint64_t{256} << 20;

onecopy::TransferRequest Direct(uint64_t bytes) {
  return {.source = {"east", "a", 0, bytes},
          .destination = {"west", "b", 0, {}},
          .policy = {.path_glob = "rdma-direct"}};
}

void MakeBuffers(RdmaPair& pair, const std::string& size) {
  pair.east.Do({"buffer", "create", "a", "--size", size, "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", size, "--memory", "host"});
}

// Loses everything both ways, but lets the daemons' calls through: they go over loopback addresses
// of the same wire, so they are lost too, and come back with it.
struct Outage {
  PacketLoss east{"rn0"};
  PacketLoss west{"rn1"};
};

}  // namespace

TEST_CASE(
    "a wire that is cut ends a transfer as LINK_DOWN or PEER_DOWN, and the next one goes through") {
  RdmaPair pair({.config = "[transfers]\nresume_for = \"0s\"\n"});
  MakeBuffers(pair, "256MiB");
  Client west = pair.west.Connect();
  Client east = pair.east.Connect();
  const onecopy::TransferInfo running = StartAndSeeRunning(east, Direct(kBytes));
  Json ended;
  {
    const Outage outage;
    // The destination decides, and hears of it from its own device.
    WaitUntil("the destination's transfer has ended", [&] {
      ended = pair.west.Do({"transfer", "show", running.id.str()});
      return ended.at("state") == "FAILED";
    });
  }
  INFO(ended.dump(2));
  CHECK((ended.at("error").at("reason") == "LINK_DOWN" ||
         ended.at("error").at("reason") == "PEER_DOWN"));
  pair.east.WaitForPeer("west");
  pair.west.WaitForPeer("east");
  const Json again = pair.east.Do({"cp", "a@0+1MiB", "west:b@0+1MiB", "--path", "rdma-direct"});
  CHECK(again.at("path") == "rdma-direct");
}

// One wire carries everything here, so cuts come one after the other.
TEST_CASE("after a cut of any length and direction the next copy goes by the device again") {
  struct Cut {
    std::chrono::seconds length;
    bool from_east;
    bool from_west;
  };
  const Cut cut = GENERATE(values<Cut>({{2s, true, true},
                                        {10s, true, true},
                                        {45s, true, true},
                                        {20s, true, false},
                                        {20s, false, true}}));
  INFO(cut.length.count() << " s, from east " << cut.from_east << ", from west " << cut.from_west);
  RdmaPair pair;
  MakeBuffers(pair, "64MiB");  // a second or two
  Client east = pair.east.Connect();
  // East reads by a connection that is idle during the cut, west by one that is busy.
  onecopy::TransferRequest idle = Direct(uint64_t{1} << 20);
  std::swap(idle.source.node, idle.destination.node);
  std::swap(idle.source.buffer, idle.destination.buffer);
  REQUIRE_OK(onecopy::OutcomeOf(Must(east.RunTransfer(idle))));
  const onecopy::TransferInfo running = StartAndSeeRunning(east, Direct(uint64_t{64} << 20));
  {
    std::optional<PacketLoss> from_east;
    std::optional<PacketLoss> from_west;
    if (cut.from_east) from_east.emplace("rn0");
    if (cut.from_west) from_west.emplace("rn1");
    std::this_thread::sleep_for(cut.length);  // this is the cut
  }
  for (const onecopy::TransferRequest& next : {idle, Direct(uint64_t{1} << 20)}) {
    const onecopy::TransferInfo done = Must(east.RunTransfer(next));
    INFO(next.source.ToString() << ": " << done.error.ToString());
    CHECK(done.state == onecopy::TransferState::kSucceeded);
  }
  const onecopy::TransferInfo ended = Must(east.AwaitTransfer(running.id));
  INFO(ended.error.ToString());
  CHECK((ended.error.ok() || ended.error.code() == onecopy::Code::kUnavailable ||
         ended.error.code() == onecopy::Code::kDeadlineExceeded));
}

TEST_CASE("a source that freezes before it has handed out a byte ends the transfer in time") {
  RdmaPair pair({.config = "[transfers]\nstall_timeout = \"5s\"\n"
                           "[peering]\nheartbeat = \"500ms\"\n"});
  MakeBuffers(pair, "256MiB");
  Client west = pair.west.Connect();
  // Connections and slots are made first: that can take a busy guest seconds, a stall of its own.
  WaitUntil("what is staged goes through", [&] {
    return pair.west.Run({"cp", "east:a@0+1MiB", "b@0+1MiB", "--path", "rdma-staged"})
               .exit_status == 0;
  });
  // What is staged needs the source for every chunk.
  onecopy::TransferRequest request = Direct(kBytes);
  request.policy.path_glob = "rdma-staged";
  const onecopy::TransferInfo running = StartAndSeeRunning(west, request);
  {
    const Frozen east(pair.east);
    const onecopy::TransferInfo ended = Must(west.AwaitTransfer(running.id));
    CHECK(ended.state == onecopy::TransferState::kFailed);
    INFO(ended.error.ToString());
    CHECK((ended.error.reason() == "PEER_DOWN" || ended.error.reason() == "STALLED" ||
           ended.error.reason() == "LINK_DOWN"));
  }
  pair.west.WaitForPeer("east");
  pair.east.WaitForPeer("west");
  const Json again = pair.west.Do({"cp", "east:a@0+1MiB", "b@0+1MiB", "--path", "rdma-staged"});
  CHECK(again.at("path") == "rdma-staged");
}

TEST_CASE("a hundred failed transfers leave no queue pair, region or window behind") {
  RdmaPair pair;
  MakeBuffers(pair, "64MiB");
  Client east = pair.east.Connect(false);
  REQUIRE_OK(onecopy::OutcomeOf(Must(east.RunTransfer(Direct(4096)))));
  const size_t queue_pairs = CountResources("qp");
  const size_t regions = CountResources("mr");
  for (int i = 0; i < 100; ++i) {
    const onecopy::TransferInfo started = Must(east.StartTransfer(Direct(uint64_t{64} << 20)));
    const auto ended = east.CancelTransfer(started.id);
    const auto waited = Must(east.AwaitTransfer(started.id));
    CHECK((ended.ok() || waited.state == onecopy::TransferState::kSucceeded));
  }
  REQUIRE_OK(onecopy::OutcomeOf(Must(east.RunTransfer(Direct(4096)))));
  CHECK(CountResources("qp") == queue_pairs);
  CHECK(CountResources("mr") == regions);
}

TEST_CASE("a device that is removed fails its transfers, and others go by sockets") {
  const LentVerbs lent;
  RdmaPair pair({.config = "[libraries]\nibverbs = \"" + LentVerbs::Library().string() + "\"\n",
                 .environment = {lent.Environment()}});
  MakeBuffers(pair, "256MiB");
  Client east = pair.east.Connect();
  const onecopy::TransferInfo running = StartAndSeeRunning(east, Direct(kBytes));
  const_cast<LentVerbs&>(lent).Remove("rxe1");
  const onecopy::TransferInfo ended = Must(east.AwaitTransfer(running.id));
  INFO(ended.error.ToString());
  CHECK(ended.state == onecopy::TransferState::kFailed);
  CHECK(ended.error.reason() == "LINK_DOWN");
  const Json receipt = pair.east.Do({"cp", "a@0+1MiB", "west:b@0+1MiB"});
  CHECK(receipt.at("path") == "tcp-direct");
  const CommandResult asked =
      pair.east.Run({"cp", "a@0+1MiB", "west:b@0+1MiB", "--path", "rdma-direct"});
  CheckRefused(asked, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
}

TEST_CASE("where no queue pair is left, the next path is taken, with the reason") {
  const LentVerbs lent;
  const_cast<LentVerbs&>(lent).SetQueuePairsUsedUp(true);
  RdmaPair pair({.config = "[libraries]\nibverbs = \"" + LentVerbs::Library().string() + "\"\n",
                 .environment = {lent.Environment()}});
  MakeBuffers(pair, "1MiB");
  const Json receipt = pair.east.Do(
      {"cp", "a", "west:b", "--at-most", "3", "--allow-emulated", "--path", "*-direct"});
  INFO(receipt.dump(2));
  CHECK(receipt.at("path") == "tcp-direct");
  bool said = false;
  for (const Json& refused : receipt.at("refused")) {
    if (refused.at("path") == "rdma-direct") said = refused.at("reason") == "KEYS_EXHAUSTED";
  }
  CHECK(said);
}

TEST_CASE("where no memory may be locked, the next path is taken, with the reason") {
  // Root may lock what it likes until it loses that right.
  const auto without_memlock = [] {
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    ::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
  };
  RdmaPair pair({.in_child = without_memlock});
  MakeBuffers(pair, "1MiB");
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--path", "*-direct"});
  INFO(receipt.dump(2));
  CHECK(receipt.at("path") == "tcp-direct");
  // A probe may have found it before, and tells it as what the device cannot do; or this emulated
  // device was measured, and not tried for being slower.
  const auto says_so = [](const Json& refused) {
    if (refused.at("path") == "rdma-direct" && refused.at("reason") == "SLOWER_ESTIMATED") {
      return true;
    }
    const bool reason =
        refused.at("reason") == "MEMLOCK" || refused.at("reason") == "HOST_NOT_PINNABLE";
    return refused.at("path") == "rdma-direct" && reason &&
           refused.at("detail").get<std::string>().find("may lock 64 KiB only") !=
               std::string::npos;
  };
  const Json& refused = receipt.at("refused");
  CHECK(std::any_of(refused.begin(), refused.end(), says_so));
  const CommandResult asked = pair.east.Run({"cp", "a", "west:b", "--path", "rdma-direct"});
  INFO(asked.json.dump(2));
  CHECK((asked.exit_status == 7 || asked.exit_status == 9));
  CHECK(asked.json.dump().find("may lock 64 KiB only") != std::string::npos);
}

TEST_CASE("a peer that is killed while its memory is read fails the transfer, and is met again") {
  RdmaPair pair({.config = "[transfers]\nresume_for = \"0s\"\n"});
  MakeBuffers(pair, "256MiB");
  Client west = pair.west.Connect();
  const onecopy::TransferInfo running =
      Must(west.StartTransfer({.source = {"east", "a", 0, kBytes},
                               .destination = {"west", "b", 0, {}},
                               .policy = {.path_glob = "rdma-direct"}}));
  SeeRunning(west, running.id);
  pair.east.Kill();
  const onecopy::TransferInfo ended = Must(west.AwaitTransfer(running.id));
  CHECK(ended.state == onecopy::TransferState::kFailed);
  CHECK(ended.error.code() == onecopy::Code::kUnavailable);
  pair.east.Restart();
  pair.west.WaitForPeer("east");
  pair.east.WaitForPeer("west");
  pair.east.Do({"buffer", "create", "a", "--size", "1MiB", "--memory", "host"});
  const Json again =
      pair.west.Do({"cp", "east:a", "west:b@0+1MiB", "--path", "rdma-direct", "--checksum"});
  CHECK(again.at("path") == "rdma-direct");
}

}  // namespace faults_test
