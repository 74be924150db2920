// Transfers that clients of this node ask for, wherever the ends are.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/registry/request_log.h"
#include "daemon/engine/transfers/ordered_transfers.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. The source's node is asked for a ticket, then the destination's node to start;
// either may be this one.
class Coordinator {
 public:
  Coordinator(Context& context, Nodes& nodes, Transfers& transfers,
              RemoteTransfers& remote_transfers, OrderedTransfers& ordered, Series& series,
              RequestMemory& memory)
      : context_(context),
        nodes_(nodes),
        transfers_(transfers),
        remote_transfers_(remote_transfers),
        ordered_(ordered),
        series_(series),
        requests_(memory, "transfer") {}

  // See ClientApi::CreateTransfer.
  void Create(const Principal& who, TransferRequest request, RangeGroups ranges,
              Reply<TransferInfo> reply);

  // A client may repeat the request of a transfer that the previous process began: it gets that
  // transfer.
  void Remember(const OrderedRecord& begun);

 private:
  struct Pending;

  // The part of this node in such a transfer.
  TransferRole RoleHere(const TransferRequest& asked) const;
  void Reserve(std::shared_ptr<Pending> pending);
  // What the next process should know of it.
  void Record(const Pending& pending, const Reservation& reservation) const;
  // This node's record of it, as far as it is known before the destination has planned it.
  TransferInfo InfoOf(const Pending& pending, const Reservation& reservation) const;
  void StartAt(std::shared_ptr<Pending> pending, Reservation reservation);
  void Conclude(const std::shared_ptr<Pending>& pending, Result<TransferInfo> outcome);
  void Refuse(Pending& pending, const Status& why);
  // From then on the order waits for its answers until its deadline.
  void KeepDeadline(const std::shared_ptr<Pending>& pending);
  void GiveUp(const std::shared_ptr<Pending>& pending);
  void CancelStarted(const Pending& pending);
  // It will not begin.
  void GiveBack(const Pending& pending, const Status& why);

  Context& context_;
  Nodes& nodes_;
  Transfers& transfers_;
  RemoteTransfers& remote_transfers_;
  OrderedTransfers& ordered_;
  Series& series_;
  RequestLog<TransferId> requests_;
};

}  // namespace onecopy::engine
