// What a client asks for on attach.sock to use a buffer's memory in place.
#pragma once

#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/core/contracts/import_request.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::engine {

// What the client maps.
struct MappingGiven {
  BufferInfo buffer;
  ImportRequest memory;           // its form, and where the buffer lies in it; its numbers of
                                  // descriptors mean nothing
  std::vector<os::UniqueFd> fds;  // the memory's, in the order of its allocations
  os::UniqueFd lease;             // see handover::Lease
};

// Engine thread. Every reply comes exactly once, on the engine's thread.
class MappingApi {
 public:
  virtual ~MappingApi() = default;

  // A buffer of this node (`node` empty, or its name), by name or id, for a user that may read
  // and write all of it. NOT_FOUND (BUFFER_NOT_FOUND), PERMISSION_DENIED (NOT_OWNER,
  // GRANT_EXPIRED), FAILED_PRECONDITION (NOT_SHAREABLE, PID_NAMESPACE, OTHER_NODE),
  // RESOURCE_EXHAUSTED (QUOTA), UNAVAILABLE (DRAINING).
  virtual void MapBuffer(const SessionId& session, const std::string& node,
                         const std::string& buffer, Reply<MappingGiven> reply) = 0;
};

}  // namespace onecopy::engine
