// Holds a stream back until all work has been submitted to it, so that the time of short copies is
// the GPU's and not that of the calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "bench/ceiling/gpu.h"

namespace onecopy::bench {

// A word of pinned memory that a stream waits for. One thread at a time.
class Gate {
 public:
  static Result<std::unique_ptr<Gate>> Create(std::shared_ptr<Gpu> gpu);
  ~Gate();  // opens it; no stream may wait any more
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // What is submitted to the stream (of this GPU, whose context is current) from now on waits for
  // Open. The driver may itself wait for the stream before a submission returns: so the gate opens
  // after 20 ms at the latest. False where the driver has no such waits: nothing waits then.
  bool Close(CUstream stream);
  void Open();

 private:
  Gate(std::shared_ptr<Gpu> gpu, uint32_t* word) : gpu_(std::move(gpu)), word_(word) {}

  const std::shared_ptr<Gpu> gpu_;
  uint32_t* const word_;  // 1: open
  std::jthread opener_;   // runs while it is closed
};

}  // namespace onecopy::bench
