// Reading and writing one piece at a time, however that is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "onecopy/status.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/region.h"

namespace onecopy::posix {

// The kernel takes no more in one call than a little less than 2 GiB.
inline constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

// The submitting thread copies what comes out of the page cache, unless another thread is told
// to: from this size on several copy faster than one.
inline constexpr uint64_t kOwnThreadFrom = uint64_t{64} << 10;

// How many bytes went which way.
struct IoTally {
  std::atomic<uint64_t> by_ring{0};
  std::atomic<uint64_t> in_registered{0};  // of those, in memory that the kernel knew
  std::atomic<uint64_t> of_registered{0};  // and of a descriptor that it knew
  std::atomic<uint64_t> by_threads{0};
};

// One read or write. The descriptor, the memory and the tally stay until it has ended.
struct IoRequest {
  bool write = false;
  bool hole = false;    // written as zeros that take no room, by a thread that waits
  bool direct = false;  // the descriptor was opened with O_DIRECT
  bool waits = false;   // by a thread that waits, also where there is a ring
  int fd = -1;
  int place = -1;  // of that descriptor among those that the ring has registered; -1: it is not
  uint64_t offset = 0;
  const Region* region = nullptr;  // in which it lies; null: unknown
  std::byte* at = nullptr;
  uint64_t bytes = 0;
  IoTally* tally = nullptr;  // null: not counted
  // How many bytes, perhaps fewer than were asked for, or -errno. Runs once, on the loop's thread.
  UniqueFunction<void(int64_t)> ended;
};

// On one loop's thread, which it never makes wait.
class Io {
 public:
  virtual ~Io() = default;
  virtual void Submit(IoRequest request) = 0;
};

}  // namespace onecopy::posix
