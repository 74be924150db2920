// GPU memory that is none: two devices of memfds, which other processes can map, and which does
// whatever a test wants.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/core/contracts/memory.h"

namespace onecopy::testing {

// What the memory of one node does; shared by the test and the memory. Any thread.
class FakeGpus {
 public:
  struct Hooks {
    std::function<Status()> on_share;
    std::function<Status()> on_import;
    std::function<Status()> on_flush;  // unset: nothing needs to be flushed
    std::function<Status()> on_prove;  // of routes between GPUs
    bool hold = false;                 // copies between GPUs, and a ring's copies, wait for Release
    bool apart = false;                // no GPU reaches the other one's memory
    // Sets the checksums of the leaves from `offset` on; unset: the device cannot sum.
    std::function<Status(uint64_t offset, std::span<Memory::LeafSum>)> on_sum;
  };
  void Set(const std::function<void(Hooks&)>& change);
  Hooks hooks() const;
  void Release();

  // What was made, and is there now.
  size_t imports() const;
  size_t imported() const;  // now
  size_t flushes() const;
  size_t held() const;
  bool polled() const;  // whether the end of a ring's copy was asked for

 private:
  friend class FakeGpuMemory;
  friend class FakeGpuPolledRoute;
  friend class FakeGpuRoute;
  mutable std::mutex mutex_;
  Hooks hooks_;
  size_t imports_ = 0;
  size_t imported_ = 0;
  size_t flushes_ = 0;
  std::vector<Task> held_;
  bool polled_ = false;
};

// Kind "cuda", devices "GPU-fake-0" and "GPU-fake-1" ("cuda:0", "cuda:1").
std::unique_ptr<Memory> MakeFakeGpuMemory(std::string node, std::shared_ptr<FakeGpus> control);

}  // namespace onecopy::testing
