// Memory of this node's buffers that other daemons of this host use in place.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/shared_memory.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/handover/server.h"

namespace onecopy::engine {

// Engine thread. A buffer has one loan in its life, whoever borrows it. An importer keeps what it
// has for a while after a transfer, so that the next one finds it; it is told when the buffer goes.
class MemoryExporter {
 public:
  MemoryExporter(Context& context, Peers& peers, Buffers& buffers, Tickets& tickets);

  // To the node `caller`, which must be a daemon of this host and have a ticket; the ticket stays
  // good. FAILED_PRECONDITION: NOT_SHAREABLE with the memory's own reason, OTHER_NODE.
  void Lend(const std::string& caller, const ImportMemoryRequest& request,
            Reply<MemoryExport> reply);

  // FAILED_PRECONDITION (NOT_SHAREABLE) where that node has no such loan of the buffer (any more).
  Status Check(const std::string& caller, BufferId buffer, uint64_t loan) const;

  // Has one importer end a transfer from the buffer. `done` runs when it has, or after a bounded
  // time.
  void Recall(const std::string& importer, BufferId buffer, const TransferId& id, Task done);
  // The buffer is gone: all have to let go.
  void DropBuffer(BufferId buffer);
  // `then` runs when nobody is still being asked to let go of the buffer.
  void WhenRecalled(BufferId buffer, Task then);

  void PeerLost(const std::string& node);  // with what it has borrowed
  void Clear();                            // at the engine's end

 private:
  struct Lent {
    uint64_t id = 0;
    std::set<std::string> importers;
  };

  void Ask(const std::string& importer, BufferId buffer, const TransferId& id, Task done);
  Result<MemoryExport> Hand(const std::string& caller, BufferId buffer,
                            Result<SharedMemory> shared);

  Context& context_;
  Peers& peers_;
  Buffers& buffers_;
  Tickets& tickets_;
  handover::Server server_;
  std::map<BufferId, Lent> lent_;
  std::map<BufferId, size_t> recalls_;  // under way
  std::map<BufferId, std::vector<Task>> waiting_;
};

}  // namespace onecopy::engine
