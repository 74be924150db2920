#include "transport/os/files/page_cache.h"

#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace onecopy::os {
namespace {

// cachestat(2), for which the C library has nothing yet.
struct CacheRange {
  uint64_t offset;
  uint64_t bytes;
};
struct CacheCounts {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};
constexpr long kCachestat = 451;

}  // namespace

std::optional<uint64_t> CachedPages(int fd, uint64_t offset, uint64_t bytes) {
  struct statfs system {};
  if (::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC) return std::nullopt;
  CacheRange range{offset, bytes};
  CacheCounts counts{};
  if (::syscall(kCachestat, fd, &range, &counts, 0) != 0) return std::nullopt;
  return counts.cached;
}

}  // namespace onecopy::os
