// A stream of a GPU whose work is timed by events around it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "bench/ceiling/gpu.h"
#include "bench/matrix/gate.h"

namespace onecopy::bench {

// One thread at a time. Its end waits for the stream's.
class TimedStream {
 public:
  static Result<std::unique_ptr<TimedStream>> Create(std::shared_ptr<Gpu> gpu);
  ~TimedStream();
  TimedStream(const TimedStream&) = delete;
  TimedStream& operator=(const TimedStream&) = delete;

  Gpu& gpu() const { return *gpu_; }
  CUstream stream() const { return stream_; }

  // Seconds that the stream takes for what `submit` submits to it. Returns when the stream has
  // ended, also after a failure. The GPU's context is current in `submit`.
  Result<double> Run(const std::function<Status()>& submit, Gate* gate = nullptr);

  // What is submitted here from now on waits for what has been submitted there, on any GPU.
  Status WaitFor(TimedStream& other);

 private:
  explicit TimedStream(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  Status Begin();

  const std::shared_ptr<Gpu> gpu_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
  CUevent mark_ = nullptr;  // for WaitFor
};

// Lets a stream wait for an event of any GPU. FAILED_PRECONDITION if the driver cannot.
Status WaitForEvent(const shim::CudaApi& api, CUstream stream, CUevent event);

}  // namespace onecopy::bench
