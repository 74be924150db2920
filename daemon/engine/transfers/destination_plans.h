// Checks and plans what is asked of the destination of a transfer.
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
    ByteRange range;    // in the buffer; from the first to the last byte of ranges
    Area area;          // where that lies in its memory
    ScatterRef ranges;  // in both memories; null: all of them
    std::optional<GrantId> grant;
  };
  // `accepted`: the request belongs to a transfer that was accepted.
  Result<Checked> Check(const std::string& caller, const StartRequest& request,
                        bool accepted = false) const;

  // The ways between the two nodes that must be probed before the path can be planned.
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
  // How a file at one of the ends is reached; nothing if neither end is a file.
  std::optional<plan::FileEnd> FileEndOf(const Reservation& source, const Area& destination,
                                         const ScatterRef& ranges) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
