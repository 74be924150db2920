// Who has mapped which of this node's buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/engine/api/mapping_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/base/shared_memory.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/handover/lease.h"

namespace onecopy::engine {

// Engine thread, which never waits for a client. What a client has mapped no daemon can unmap: it
// is told to let go, and whoever waits for that does so for a bounded time. A mapping counts,
// against its client's quota too, until the client has let go of it, however long that takes.
class Mappings final : public MappingApi {
 public:
  struct Needs {
    Context& context;
    const Owners& owners;
    const Sessions& sessions;
    Buffers& buffers;
    const Grants& grants;
  };

  explicit Mappings(const Needs& needs);

  void MapBuffer(const SessionId& session, const std::string& node, const std::string& buffer,
                 Reply<MappingGiven> reply) override;

  // Its clients are told why, and have to let go.
  void DropBuffer(BufferId buffer, const Status& why);
  // Likewise of those that rest on the grant, unless another one gives as much.
  void DropGrant(const GrantId& grant, const Status& why);
  void EndSession(const SessionId& session);
  void EndAll(const Status& why);

  // Runs `then` when all that were told to let go of the buffer, or because of the grant, have done
  // so, or have had the time for it.
  void WhenReleased(BufferId buffer, Task then);
  void WhenReleased(const GrantId& grant, Task then);

  // At the engine's end: closes what is left.
  void Clear();

 private:
  struct Entry {
    Principal who;
    std::string from;  // as the audit log has it
    BufferId buffer;
    std::string buffer_name;
    std::vector<GrantId> grants;  // that it rests on
    handover::Lease lease;
    Ledger::Charge charge;
    // The memory stays until the client has let go, or has had the time for it; with `for_ever`,
    // in the first case alone: freeing it would be undefined.
    RegionRef region;
    bool for_ever = false;
    Status revoked = {};   // not OK once the client was told: why
    bool awaited = false;  // that it lets go
    os::EventLoop::TimerId timer = 0;
  };
  using Which = std::function<bool(const Entry&)>;
  struct Waiting {
    Which which;
    Task then;
  };
  struct Asked {
    Principal who;
    BufferId buffer;
    Ledger::Charge charge;
  };

  // Once the memory has been shared: whether all is still as it was when the client asked.
  Result<MappingGiven> Add(Asked asked, const RegionRef& region, Result<SharedMemory> shared);
  void RevokeThose(const Which& which, const Status& why);
  void Revoke(uint64_t number, const Status& why);
  // The client has not let go in time.
  void GiveUp(uint64_t number);
  void Released(uint64_t number);
  void AwaitNone(Which which, Task then);
  // Tells those who waited in vain no more.
  void Look();

  const Needs needs_;
  std::map<uint64_t, Entry> entries_;
  std::vector<Waiting> waiting_;
  uint64_t next_ = 1;
};

}  // namespace onecopy::engine
