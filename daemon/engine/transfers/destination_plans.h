// Checks and plans transfers whose destination is this node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/places.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/plan/planner.h"

namespace onecopy::engine {

Area AreaOf(const Buffer& buffer, MemoryPlace place);

// Engine thread. Changes nothing.
class DestinationPlans {
 public:
  struct Needs {
    Context& context;
    Transfers& transfers;
    Buffers& buffers;
    Grants& grants;
    const Planning& planning;
  };

  explicit DestinationPlans(const Needs& needs) : needs_(needs) {}

  // The destination of a request that may be carried out.
  struct Checked {
    Buffer* buffer = nullptr;
    ByteRange range;    // in the buffer; with ranges, what they span
    Area area;          // where that range lies in the buffer's memory
    ScatterRef ranges;  // where they lie in both memories; null: each end is one range
    std::optional<GrantId> grant;
  };
  // `accepted`: the request belongs to a transfer that was accepted.
  Result<Checked> Check(const std::string& caller, const StartRequest& request,
                        bool accepted = false) const;

  // The wires between the two nodes that must be probed before the path can be planned.
  Result<std::vector<plan::Wire>> Unknowns(const std::string& caller, const StartRequest& request,
                                           bool accepted = false) const;

  Result<plan::Request> MakeRequest(const Reservation& source, const Area& destination,
                                    const ScatterRef& ranges, const Policy& policy,
                                    std::vector<plan::Exclusion> excluded) const;
  Result<plan::Path> MakePlan(const Reservation& source, const Area& destination,
                              const ScatterRef& ranges, const Policy& policy,
                              std::vector<plan::Exclusion> excluded) const;
  using MakePlanAgain = std::function<Result<plan::Path>(
      const Reservation&, const Area& destination, const ScatterRef& ranges, const Policy&,
      std::vector<plan::Exclusion> excluded)>;
  MakePlanAgain Replan() const;

 private:
  // How bytes reach or leave the end that is a file; nothing if neither end is one.
  std::optional<plan::FileEnd> FileEndOf(const Reservation& source, const Area& destination,
                                         const ScatterRef& ranges) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
