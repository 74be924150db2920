// Transfers that clients of this node ask for, wherever the ends are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/registry/request_log.h"
#include "daemon/engine/transfers/mirrors.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. The source's node is asked for a ticket, then the destination's node to start;
// either may be this one.
class Orders {
 public:
  Orders(Context& context, Nodes& nodes, Transfers& transfers, Mirrors& mirrors, Series& series,
         RequestMemory& memory)
      : context_(context),
        nodes_(nodes),
        transfers_(transfers),
        mirrors_(mirrors),
        series_(series),
        requests_(memory, "transfer") {}

  void Create(const Principal& who, TransferRequest request, Reply<TransferInfo> reply);

 private:
  struct Order;

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

  Context& context_;
  Nodes& nodes_;
  Transfers& transfers_;
  Mirrors& mirrors_;
  Series& series_;
  RequestLog<TransferId> requests_;
};

}  // namespace onecopy::engine
