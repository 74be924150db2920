// Transfers that clients of this node ask for, wherever the ends are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/parts.h"
#include "daemon/engine/peer_api.h"
#include "daemon/engine/request_log.h"

namespace onecopy::engine {

// Engine thread. The source's node is asked for a ticket, then the destination's node to start;
// either may be this one.
class Orders {
 public:
  // `self`: this node, as a peer asks it.
  Orders(Parts& parts, PeerApi& self, RequestMemory& memory)
      : parts_(parts), self_(self), requests_(memory, "transfer") {}

  void Create(const Principal& who, TransferRequest request, Reply<TransferInfo> reply);

 private:
  struct Order;

  // The node that an endpoint means, to be asked.
  void Reach(const std::string& node, Reply<PeerApi*> reply);
  // The part of this node in such a transfer.
  TransferRole RoleHere(const TransferRequest& asked) const;
  void Reserve(std::shared_ptr<Order> order);
  void StartAt(std::shared_ptr<Order> order, Reservation reservation);
  void Conclude(const std::shared_ptr<Order>& order, Result<TransferInfo> outcome);
  void Refuse(Order& order, const Status& why);
  // From then on the order waits for its answers until its deadline.
  void KeepDeadline(const std::shared_ptr<Order>& order);
  void GiveUp(const std::shared_ptr<Order>& order);
  void CancelStarted(const Order& order);

  Parts& parts_;
  PeerApi& self_;
  RequestLog<TransferId> requests_;
};

}  // namespace onecopy::engine
