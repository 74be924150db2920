// The mappings of this node's buffers, by client.
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

// Engine thread, which never waits for a client. A daemon cannot unmap what a client has mapped: it
// tells the client to unmap it, and callers wait for that for a bounded time. A mapping counts,
// also against its client's quota, until the client has unmapped it, however long that takes.
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

  // Its clients are told why, and must unmap it.
  void DropBuffer(BufferId buffer, const Status& why);
  // Likewise of those that rest on the grant, unless another one gives as much.
  void DropGrant(const GrantId& grant, const Status& why);
  void EndSession(const SessionId& session);
  void EndAll(const Status& why);

  // Runs `then` when all clients that were told to unmap the buffer, or lost the grant, have done
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
    // The memory stays until the client has unmapped it, or has had the time for it; with
    // `for_ever`, only until the client has unmapped it: freeing it would be undefined.
    RegionRef region;
    bool for_ever = false;
    Status revoked = {};   // not OK once the client was told: why
    bool awaited = false;  // that it unmaps it
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
  // The client has not unmapped it in time.
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
