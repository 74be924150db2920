// What a client asks for on attach.sock before it registers ordinary memory of its process.
#pragma once

#include "daemon/engine/api/types.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::engine {

// What the client gets of its slab.
struct SlabGiven {
  os::UniqueFd slab;
  os::UniqueFd orders;
  os::UniqueFd socket;
  uint64_t bytes = 0;  // of the slab
};

// Engine thread. Every reply comes exactly once, on the engine's thread.
class SlabApi {
 public:
  virtual ~SlabApi() = default;

  // The session's slab: one at most. A second one takes the place of a first that no buffer uses.
  // ALREADY_EXISTS (NAME_TAKEN), FAILED_PRECONDITION (NOT_SERVED) where this daemon has no
  // memory of processes, RESOURCE_EXHAUSTED.
  virtual void OpenSlab(const SessionId& session, Reply<SlabGiven> reply) = 0;
};

}  // namespace onecopy::engine
