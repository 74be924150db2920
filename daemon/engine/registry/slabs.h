// Clients' slabs, by session.
#pragma once

#include <map>
#include <memory>

#include "daemon/engine/api/slab_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/contracts/client_slab.h"

namespace onecopy::engine {

// Engine thread. A slab is its session's alone: two clients never share one, be they of one user.
class Slabs final : public SlabApi {
 public:
  Slabs(Context& context, const Sessions& sessions) : context_(context), sessions_(sessions) {}

  void OpenSlab(const SessionId& session, Reply<SlabGiven> reply) override;
  // Null where the session has none.
  std::shared_ptr<ClientSlab> Find(const SessionId& session) const;
  // What is being copied through it fails; its memory goes with the last region that needs it.
  void EndSession(const SessionId& session);
  void Clear();  // at the engine's end

 private:
  struct Entry {
    std::shared_ptr<ClientSlab> slab;  // null while it is made
    Ledger::Charge charge;
  };

  Result<SlabGiven> Add(const SessionId& session, Result<std::shared_ptr<ClientSlab>> made);

  Context& context_;
  const Sessions& sessions_;
  std::map<SessionId, Entry> slabs_;
};

}  // namespace onecopy::engine
