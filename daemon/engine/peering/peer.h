// What this node knows of one other node, and how far it has got with greeting it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/peering/whereabouts.h"
#include "onecopy/node.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Belongs to Peers; where it is, PeerAddresses says. Engine thread.
struct Peer {
  Peer(const std::string& called, const std::string& address) : name(called), where(address) {}

  // It is connected, perhaps draining.
  bool is_up() const { return state == NodeState::kConnected || state == NodeState::kDraining; }
  // Of one that is not up: why it cannot be asked now, and what to do about it.
  Status Down() const;
  NodeInfo Describe(std::string uid_domain) const;
  // It is in that state from now on, because of `why`. Logs what is news.
  void Enter(NodeState now, const Status& because);

  const std::string name;
  Whereabouts where;
  std::unique_ptr<PeerApi> api;
  NodeState state = NodeState::kDisconnected;
  Status why;
  WallTime since = std::chrono::system_clock::now();
  os::Clock::time_point heard = os::Clock::now();  // its last answer; first: when it was known
  os::Clock::time_point there = os::Clock::now();  // when it, and no other, answered or called last
  Introduction introduction;                       // as last heard; its capabilities are kept apart
  NodeCapability capabilities;
  uint64_t generation = 0;  // of the capabilities
  int misses = 0;
  int failures = 0;      // in a row, for the pauses
  uint64_t attempt = 0;  // the newest greeting; answers to older ones are dropped
  bool greeting = false;
  os::Clock::time_point greeting_since{};
  os::EventLoop::TimerId timer = 0;
  std::vector<std::pair<uint64_t, Reply<PeerApi*>>> waiting;
  std::set<std::string> told;  // why it has been out of reach since it was met last, to the log
};

using PeersByName = std::map<std::string, std::unique_ptr<Peer>>;

}  // namespace onecopy::engine
