#include "daemon/engine/rings/ring_shares.h"

#include "daemon/engine/rings/remote_route.h"

namespace onecopy::engine {

Status MayGoByRing(const Context& context, const Owner& owner, const std::string& initiator) {
  const Flows::Rates rates = context.flows.RatesOf(owner, initiator);
  const auto refuse = [&](const char* what) {
    return NotByRing("user " + PayerOf(owner).ToString() + " or node " + initiator + " has " +
                     what + " at node " + context.node() + " ([qos]), which rings do not keep");
  };
  if (rates.of_user != 0 || rates.of_node != 0) return refuse("a rate limit");
  if (context.flows.Of(owner, initiator).priority == Priority::kLow) {
    return refuse("a low priority");
  }
  return OkStatus();
}

}  // namespace onecopy::engine
