// How much memory a daemon uses beside its buffers, and how much it may use.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "bench/daemons/daemon.h"

namespace onecopy::bench {

// With as many slots, and as large ones, as are asked for, else as onecopyd has without any
// configuration: it must be known how much they are.
DaemonOptions WithKnownSlots(DaemonOptions daemon);

// What such a daemon may have: its slots, and 128 MiB.
uint64_t MemoryLimit(const DaemonOptions& daemon);

// The most that a process had in memory at any look, beside `buffer_bytes` of buffers. Looks from
// its creation to Stop. Buffers become resident as they are touched, so of the shared memory only
// what exceeds their full size is counted; all anonymous memory is.
class PeakMemory {
 public:
  PeakMemory(pid_t pid, uint64_t buffer_bytes)
      : pid_(pid), buffer_bytes_(buffer_bytes), thread_([this] { Run(); }) {}

  double Stop();

 private:
  void Run();
  void Look();

  const pid_t pid_;
  const uint64_t buffer_bytes_;
  uint64_t most_ = 0;  // the thread's until it is joined
  std::atomic<bool> stop_{false};
  std::jthread thread_;
};

}  // namespace onecopy::bench
