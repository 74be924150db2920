// Transfers whose bytes come to this node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/probing/planning.h"
#include "daemon/engine/probing/probes.h"
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
    Probes& probes;
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
  // One that an earlier process of this daemon accepted goes on, with so many bytes of its
  // beginning arrived. Nothing where its buffer is gone: then nothing is known of it.
  void Resume(const ArrivingRecord& begun, uint64_t arrived);
  // What has to be known about the ways between the two nodes before a plan is made.
  // `begun`: of a transfer that has been accepted.
  Result<std::vector<plan::Wire>> Unknowns(const std::string& caller, const StartRequest& request,
                                           bool begun = false);

 private:
  // By which path, once all is known that decides it, and the right to write has been checked
  // again.
  void Learn(const std::string& caller, const StartRequest& request, Reply<plan::Path> reply);
  // For the next process of this daemon; whether it may go on in that.
  bool Record(const std::string& caller, const StartRequest& request, const Buffer& buffer,
              const TransferInfo& info) const;
  std::shared_ptr<Reporter> ReporterOf(const TransferId& id, const std::string& caller,
                                       const std::string& source_node) const;
  DestinationRun::Replan ReplanOf();
  // The destination's side of a request that may be carried out.
  struct Checked {
    Buffer* buffer = nullptr;
    ByteRange range;    // of the buffer; of ranges, what they span
    Area area;          // where that lies in its memory
    ScatterRef ranges;  // in both memories; null: all of them
    std::optional<GrantId> grant;
  };

  // `part`: of a transfer that has been accepted.
  Result<Checked> Check(const std::string& caller, const StartRequest& request, bool part = false);
  // The right to read of a transfer inside this node: the ticket's, which this node has given
  // itself. What else the request says of the source is its caller's word, and counts for nothing.
  Result<Ticket> OwnTicket(const std::string& caller, const StartRequest& request) const;
  // `inside`: that ticket; null where the source is another node's.
  Result<TransferInfo> AcceptFrom(const std::string& caller, const StartRequest& request,
                                  const TransferId& whole, const Ticket* inside,
                                  OverlapBudget* budget);
  Result<plan::Request> MakeRequest(const Reservation& source, const Area& destination,
                                    const ScatterRef& ranges, const Policy& policy,
                                    std::vector<plan::Exclusion> excluded) const;
  // How a file that is one of the ends is reached; nothing where none is.
  std::optional<plan::FileEnd> FileEndOf(const Reservation& source, const Area& destination,
                                         const ScatterRef& ranges) const;
  Result<plan::Path> MakePlan(const Reservation& source, const Area& destination,
                              const ScatterRef& ranges, const Policy& policy,
                              std::vector<plan::Exclusion> excluded) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
