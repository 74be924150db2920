#include "bench/daemons/pair.h"

#include <chrono>
#include <thread>

#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnectLimit{20};
constexpr std::chrono::milliseconds kAskEvery{10};

Status AwaitPeer(const Daemon& daemon, const std::string& peer) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, daemon.Connect());
  const Clock::time_point until = Clock::now() + kConnectLimit;
  std::string seen;
  while (Clock::now() < until) {
    const Result<NodeInfo> info = client.GetNode(peer);
    if (info.ok() && info->state == NodeState::kConnected) return OkStatus();
    seen = info.ok() ? std::string(NodeStateName(info->state)) + " " + info->detail
                     : info.status().message();
    std::this_thread::sleep_for(kAskEvery);
  }
  return {Code::kUnavailable, reasons::kPeerDown,
          "node " + daemon.name() + " does not connect to " + peer + ": " + seen};
}

}  // namespace

Result<Pair> Pair::Start(const DaemonOptions& east, const DaemonOptions& west) {
  Pair pair;
  ONECOPY_ASSIGN_OR_RETURN(pair.west, Daemon::Start(west, "west"));
  ONECOPY_ASSIGN_OR_RETURN(pair.east, Daemon::Start(east, "east", {pair.west->AsPeer()}));
  ONECOPY_RETURN_IF_ERROR(AwaitPeer(*pair.east, "west"));
  return pair;
}

}  // namespace onecopy::bench
