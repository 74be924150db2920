// Transfers whose bytes come to this node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/probing/planning.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/transfers/destination_run.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/plan/planner.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for what each call does.
class Destinations {
 public:
  struct Needs {
    Grants& grants;
    Tickets& tickets;
    Series& series;
    const Planning& planning;
    DestinationRun::Needs runs;
  };

  explicit Destinations(const Needs& needs) : needs_(needs) {}

  // Fails before any byte moves, or accepts. With `validate_only` the answer is the plan.
  void Start(const std::string& caller, const StartRequest& request, Reply<TransferInfo> reply);

 private:
  // The destination's side of a request that may be carried out.
  struct Checked {
    Buffer* buffer = nullptr;
    Area area;
    std::optional<GrantId> grant;
  };

  Result<Checked> Check(const std::string& caller, const StartRequest& request);
  // What has to be known about the ways between the two nodes before a plan is made.
  Result<std::vector<plan::Wire>> Unknowns(const std::string& caller, const StartRequest& request);
  Result<TransferInfo> Accept(const std::string& caller, const StartRequest& request);
  // The right to read of a transfer inside this node: the ticket's, which this node has given
  // itself. What else the request says of the source is its caller's word, and counts for nothing.
  Result<Ticket> OwnTicket(const std::string& caller, const StartRequest& request) const;
  // `inside`: that ticket; null where the source is another node's.
  Result<TransferInfo> AcceptFrom(const std::string& caller, const StartRequest& request,
                                  const Ticket* inside);
  Result<plan::Request> MakeRequest(const Reservation& source, const Area& destination,
                                    const ScatterRef& ranges, const plan::Policy& policy,
                                    std::vector<plan::Exclusion> excluded) const;
  Result<plan::Plan> MakePlan(const Reservation& source, const Area& destination,
                              const ScatterRef& ranges, const plan::Policy& policy,
                              std::vector<plan::Exclusion> excluded) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
