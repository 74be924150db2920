#include "daemon/engine/base/shared_memory.h"

#include <utility>

namespace onecopy::engine {

Result<SharedMemory> Share(Region& region) {
  ONECOPY_ASSIGN_OR_RETURN(ImportRequest memory, region.Share());
  SharedMemory shared;
  if (memory.fd >= 0) shared.fds.emplace_back(memory.fd);
  for (const ImportRequest::Allocation& one : memory.more) shared.fds.emplace_back(one.fd);
  shared.memory = std::move(memory);
  return shared;
}

}  // namespace onecopy::engine
