// What another node keeps open for this one: the other side of Openings.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/peering/peers.h"

namespace onecopy::engine {

// Engine thread. Tells the node, at its own end, that it is needed no more; one that is out of
// reach closes by itself what it had opened.
class PeerOpening {
 public:
  PeerOpening(Parts& parts, std::string node, uint64_t number)
      : parts_(parts), node_(std::move(node)), number_(number) {}
  ~PeerOpening() {
    const Result<PeerApi*> peer = parts_.peers.Find(node_);
    if (peer.ok()) (*peer)->CloseOpening(parts_.context.node(), number_, [](const Status&) {});
  }
  PeerOpening(const PeerOpening&) = delete;
  PeerOpening& operator=(const PeerOpening&) = delete;

 private:
  Parts& parts_;
  const std::string node_;
  const uint64_t number_;
};

}  // namespace onecopy::engine
