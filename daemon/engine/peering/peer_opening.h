// What another node keeps open for this one: the other side of Openings.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"

namespace onecopy::engine {

// Engine thread. Tells the node, at its own end, that it is needed no more; one that is out of
// reach closes by itself what it had opened.
class PeerOpening {
 public:
  PeerOpening(const Context& context, Peers& peers, std::string node, uint64_t number)
      : context_(context), peers_(peers), node_(std::move(node)), number_(number) {}
  ~PeerOpening() {
    const Result<PeerApi*> peer = peers_.Find(node_);
    if (peer.ok()) (*peer)->CloseOpening(context_.node(), number_, [](const Status&) {});
  }
  PeerOpening(const PeerOpening&) = delete;
  PeerOpening& operator=(const PeerOpening&) = delete;

 private:
  const Context& context_;
  Peers& peers_;
  const std::string node_;
  const uint64_t number_;
};

}  // namespace onecopy::engine
