// Draining at an administrator's request: the daemon continues, running transfers end, and new ones
// are refused.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// On the engine's thread, as all rooms.
class NodeDrain {
 public:
  struct Needs {
    Context& context;
    Rings& rings;
    Openings& openings;
    Transfers& transfers;
    Peers& peers;
  };

  explicit NodeDrain(const Needs& needs) : needs_(needs) {}

  // Begins or ends it, tells peers at once, and replies with how many transfers run: now, or, with
  // `wait`, once none does. UNAVAILABLE (DRAINING) if the daemon ends, which cannot be taken back;
  // ABORTED (CANCELLED) to those that wait when it is ended.
  void Set(bool draining, bool wait, Reply<uint64_t> reply);

 private:
  void Begin();
  void End();
  void ReplyToAll(const Result<uint64_t>& with);

  const Needs needs_;
  std::vector<Reply<uint64_t>> waiting_;
};

}  // namespace onecopy::engine
