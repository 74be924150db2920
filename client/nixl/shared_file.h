// Memory of this process that lies in a file of shared memory, which a daemon can map, too.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/os/base/unique_fd.h"

namespace onecopy::nixl {

struct SharedFile {
  os::UniqueFd fd;  // open for reading and writing
  uint64_t offset = 0;
};

// The memory file (a memfd, or one below /dev/shm) that is mapped, shared, at the whole range.
// Nothing if the memory is not such a file's, or the file can no longer be opened.
std::optional<SharedFile> FindSharedFile(uintptr_t address, uint64_t bytes);

}  // namespace onecopy::nixl
