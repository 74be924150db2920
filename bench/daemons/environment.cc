#include "bench/daemons/environment.h"

#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

Result<Environment> OpenGiven(const GivenDaemons& given) {
  Environment environment;
  environment.here.run_dir = given.run_dir;
  ONECOPY_ASSIGN_OR_RETURN(Client client, environment.here.Connect());
  environment.here.name = client.node();
  environment.here.run_dir = client.run_dir();
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo peer, client.GetNode(given.peer));
  if (peer.self) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  given.peer + " is the node of the daemon itself, not a peer of it");
  }
  if (peer.state != NodeState::kConnected) {
    const bool other_version = peer.state == NodeState::kIncompatible;
    return Status(
        Code::kUnavailable, other_version ? reasons::kPeerIncompatible : reasons::kPeerDown,
        given.peer + " is " + std::string(NodeStateName(peer.state)) +
            (peer.detail.empty() ? "" : ": " + peer.detail),
        other_version ? "install the same version of onecopy on both nodes"
                      : "start onecopyd there; onecopy node show " + given.peer + " says more");
  }
  environment.there = {
      .name = given.peer, .run_dir = client.run_dir(), .pid = {}, .elsewhere = true};
  return environment;
}

}  // namespace

Result<Environment> Environment::Open(const GivenDaemons& given, const DaemonOptions& options) {
  if (!given.peer.empty()) return OpenGiven(given);
  ONECOPY_ASSIGN_OR_RETURN(Pair pair, Pair::Start(options));
  Environment environment;
  environment.here = pair.east->AsNode();
  environment.there = pair.west->AsNode();
  environment.own = std::move(pair);
  return environment;
}

}  // namespace onecopy::bench
