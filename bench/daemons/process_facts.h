// What the kernel says about a running process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::bench {

// Bytes that are in memory now.
struct ResidentBytes {
  uint64_t anonymous = 0;  // heap, stacks, private mappings
  uint64_t shared = 0;     // memfds and the like: buffers, staging slots
};
Result<ResidentBytes> ReadResident(pid_t pid);

// CPU time that the process has used, its ended threads included.
Result<double> ReadCpuSeconds(pid_t pid);

struct ThreadUse {
  pid_t id = 0;
  std::string name;
  double cpu_seconds = 0;
  uint64_t wakeups = 0;  // how often it slept and ran again
};
Result<std::vector<ThreadUse>> ReadThreads(pid_t pid);

}  // namespace onecopy::bench
