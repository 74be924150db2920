// Transfers whose bytes come to this node.
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

  // Fails before any byte moves, or accepts. With `validate_only` the answer is the plan.
  void Start(const std::string& caller, const StartRequest& request, Reply<TransferInfo> reply);

  // The same of what is known already, at once. `whole`: the transfer of several buffers that this
  // is a part of, which has been accepted; it has been charged, and is what others hear of.
  // `budget`: that of all parts, where they are checked one after the other.
  Result<TransferInfo> Accept(const std::string& caller, const StartRequest& request,
                              const TransferId& whole = {}, OverlapBudget* budget = nullptr);

 private:
  // The right to read of a transfer inside this node: the ticket's, which this node has given
  // itself. What else the request says of the source is its caller's word, and counts for nothing.
  Result<Ticket> OwnTicket(const std::string& caller, const StartRequest& request) const;
  // `inside`: that ticket; null where the source is another node's.
  Result<TransferInfo> AcceptFrom(const std::string& caller, const StartRequest& request,
                                  const TransferId& whole, const Ticket* inside,
                                  OverlapBudget* budget);

  const Needs needs_;
};

}  // namespace onecopy::engine
