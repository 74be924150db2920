// Transfers whose bytes come to this node.
#pragma once

#include <string>
#include <vector>

#include "daemon/engine/destination_run.h"
#include "daemon/engine/parts.h"
#include "daemon/plan/estimates.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for what each call does.
class Destinations {
 public:
  explicit Destinations(Parts& parts) : parts_(parts) {}

  // Fails before any byte moves, or accepts. With `validate_only` the answer is the plan.
  void Start(const std::string& caller, const StartRequest& request, Reply<TransferInfo> reply);

 private:
  Result<TransferInfo> Accept(const std::string& caller, const StartRequest& request);
  Result<plan::Plan> MakePlan(const Reservation& source, const Span& destination,
                              const plan::Policy& policy, std::vector<Refusal> excluded) const;

  Parts& parts_;
  plan::Estimates estimates_;
};

}  // namespace onecopy::engine
