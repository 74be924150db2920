#include "daemon/engine/peering/peer.h"

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// Causes that are logged of one time out of reach: each once, as they may take turns.
constexpr size_t kMaxTold = 8;

}  // namespace

void Peer::Enter(NodeState now, const Status& because) {
  why = because;
  const bool changed = state != now;
  state = now;
  if (changed) since = std::chrono::system_clock::now();
  if (is_up()) {
    told.clear();
    if (changed) {
      log::Info("peer " + std::string(NodeStateName(state)),
                {{"peer", name}, {"address", where.address()}, {"version", introduction.version}});
    }
  } else if (told.size() < kMaxTold && told.insert(why.ToString()).second) {
    // One that was never met has been in this state from the beginning.
    log::Warning("peer " + std::string(NodeStateName(state)),
                 {{"peer", name}, {"address", where.address()}, {"why", why.ToString()}});
  }
}

Status Peer::Down() const {
  if (state == NodeState::kIncompatible) return why;
  // A peer that refuses this node, or is refused by it, has a reason and a remedy of its own.
  const bool refused =
      why.reason() == reasons::kCertRejected || why.reason() == reasons::kAccessDenied;
  const bool named = why.message().find(name) != std::string::npos;
  return {Code::kUnavailable, refused ? why.reason() : reasons::kPeerDown,
          (named ? "" : "node " + name + " (" + where.address() + ") does not answer: ") +
              why.message(),
          why.remedy().empty() ? "check that onecopyd runs there; onecopy node ls lists the peers"
                               : why.remedy()};
}

NodeInfo Peer::Describe(std::string uid_domain) const {
  NodeInfo info;
  info.name = name;
  info.state = state;
  info.address = where.address();
  info.boot_id = introduction.boot_id;
  info.protocol_min = introduction.protocol_min;
  info.protocol_max = introduction.protocol_max;
  info.version = introduction.version;
  info.reason = why.reason();
  info.detail = why.message();
  info.since = since;
  info.uid_domain = std::move(uid_domain);
  if (!capabilities.node.empty()) info.capabilities = capabilities;
  return info;
}

}  // namespace onecopy::engine
