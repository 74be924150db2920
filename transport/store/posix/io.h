// Reading and writing one piece at a time, however that is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onecopy/status.h"
#include "transport/core/unique_function.h"

namespace onecopy::posix {

// The kernel takes no more in one call than a little less than 2 GiB.
inline constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

// One read or write. The descriptor and the memory stay until it has ended.
struct IoRequest {
  bool write = false;
  bool direct = false;  // the descriptor was opened with O_DIRECT
  bool waits = false;   // by a thread that waits, also where there is a ring
  int fd = -1;
  uint64_t offset = 0;
  std::byte* at = nullptr;
  uint64_t bytes = 0;
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
