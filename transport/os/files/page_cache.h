// Which parts of a file are in the page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace onecopy::os {

// Pages of that part of the file, without waiting for anything. Absent where the kernel does not
// say: before Linux 6.5, in a sandbox, and of overlayfs, which answers 0 whatever the file below it
// has there.
std::optional<uint64_t> CachedPages(int fd, uint64_t offset, uint64_t bytes);

}  // namespace onecopy::os
