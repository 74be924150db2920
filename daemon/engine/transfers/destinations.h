// Accepts transfers whose destination is this node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/transfers/destination_plans.h"
#include "daemon/engine/transfers/destination_run.h"
#include "daemon/engine/transfers/resumed_destinations.h"
#include "daemon/engine/transfers/series.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for what each call does.
class Destinations {
 public:
  struct Needs {
    Tickets& tickets;
    Series& series;
    Probes& probes;
    const DestinationPlans& plans;
    const ResumedDestinations& resumed;
    DestinationRun::Needs runs;
  };

  explicit Destinations(const Needs& needs) : needs_(needs) {}

  // Accepts the transfer, or fails before any byte moves. With `validate_only`, only plans it.
  void Start(const std::string& caller, const StartRequest& request, Reply<TransferInfo> reply);

  // The same at once: plans with the probe results that this node already has. `whole`: the
  // transfer of several buffers that this one is a part of, if any. It was accepted and charged
  // before; the initiator and watchers hear only of it. `budget`: shared by parts checked in turn.
  Result<TransferInfo> Accept(const std::string& caller, const StartRequest& request,
                              const TransferId& whole = {}, OverlapBudget* budget = nullptr);

 private:
  // For a transfer inside this node: the ticket that this node issued for it, or would issue if the
  // request only validates. What else the request says of the source is not trusted, and ignored.
  Result<Ticket> OwnTicket(const std::string& caller, const StartRequest& request) const;
  // `inside`: that ticket; null if the source is on another node.
  Result<TransferInfo> AcceptFrom(const std::string& caller, const StartRequest& request,
                                  const TransferId& whole, const Ticket* inside,
                                  OverlapBudget* budget);

  const Needs needs_;
};

}  // namespace onecopy::engine
