// Whom to ask about something of a node: that node, which may be this one.
#pragma once

#include <string>
#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"

namespace onecopy::engine {

// Engine thread. This node answers itself as a peer would, without a connection.
class Nodes {
 public:
  Nodes(const Context& context, Peers& peers, PeerApi& self)
      : context_(context), peers_(peers), self_(self) {}

  // Fails as Peers::Find.
  Result<PeerApi*> Find(const std::string& name) {
    return context_.IsSelf(name) ? Result<PeerApi*>(&self_) : peers_.Find(name);
  }
  // As Peers::WhenConnected: one that is just being dialled has a moment to answer.
  void WhenConnected(const std::string& name, Reply<PeerApi*> reply) {
    if (context_.IsSelf(name)) return reply(&self_);
    peers_.WhenConnected(name, std::move(reply));
  }
  // As Peers::TakesFiles.
  bool TakesFiles(const std::string& name) const {
    return context_.IsSelf(name) || peers_.TakesFiles(name);
  }
  // As Peers::WritesFiles.
  bool WritesFiles(const std::string& name) const {
    return context_.IsSelf(name) || peers_.WritesFiles(name);
  }

 private:
  const Context& context_;
  Peers& peers_;
  PeerApi& self_;
};

}  // namespace onecopy::engine
