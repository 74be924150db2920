// What a client is told about nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "onecopy/transfer.h"
#include "transport/core/capability.h"

namespace onecopy {

// kUnknown: a state that this library is too old to know.
enum class NodeState { kUnknown, kConnected, kDisconnected, kIncompatible, kDraining };

// "CONNECTED" and the like.
std::string_view NodeStateName(NodeState state);

struct NodeInfo {
  std::string name;
  bool self = false;  // the node that the client is attached to
  NodeState state = NodeState::kUnknown;
  std::string address;  // HOST:PORT at which its daemon listens for peers
  std::string boot_id;  // changes whenever its daemon starts
  uint32_t protocol_min = 0;
  uint32_t protocol_max = 0;
  std::string version;
  std::string reason;  // why it is not CONNECTED
  std::string detail;
  WallTime since;  // when this state began
  std::string uid_domain;
  std::optional<NodeCapability> capabilities;  // absent from a list of nodes
};

}  // namespace onecopy
