// Copies from one GPU to another (or inside one) by plain CUDA, as p2pBandwidthLatencyTest of
// CUDA's samples and nvbandwidth make them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/ceiling/gpu.h"
#include "bench/matrix/timed_stream.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// Memory of cuMemAlloc on both GPUs, and a stream on each. Whether a copy goes from GPU to GPU or
// is staged by the driver depends on whether the contexts have peer access, which is the caller's
// to enable. One thread at a time. Failures are the driver's (DRIVER_FAILED), NO_MEMORY, or
// DATA_LOSS.
class PlainPair {
 public:
  // `from` and `to` may be one.
  static Result<std::unique_ptr<PlainPair>> Create(const std::shared_ptr<Gpu>& from,
                                                   const std::shared_ptr<Gpu>& to, uint64_t bytes);
  ~PlainPair();
  PlainPair(const PlainPair&) = delete;
  PlainPair& operator=(const PlainPair&) = delete;

  // A sample each. Rates count each copied byte once. The copies between GPUs begin when all of a
  // sample are submitted (see Gate).

  // Several copies of all bytes on a stream of `from`.
  Result<double> OneWayBytesPerSecond();
  // The same, and as many copies in the other direction on a stream of `to` at the same time; the
  // sum of both.
  Result<double> BothWaysBytesPerSecond();
  // To pinned host memory on one stream and from there on another, in pieces that overlap.
  Result<double> ThroughHostBytesPerSecond();
  // The mean of many copies of kLatencyCopyBytes, one after the other.
  Result<double> LatencySeconds();

  // Whether the bytes of a copy arrive: DATA_LOSS if not.
  Status CheckOneWay();
  Status CheckThroughHost();

 private:
  PlainPair(std::shared_ptr<Gpu> from, std::shared_ptr<Gpu> to, uint64_t bytes)
      : from_(std::move(from)), to_(std::move(to)), bytes_(bytes) {}
  Status Begin();
  Status Copy(const GpuMemory& from, const GpuMemory& to, uint64_t bytes, CUstream stream) const;
  Status CopyForward(uint64_t bytes, unsigned copies) const;
  Status CopyBackward(uint64_t bytes) const;
  Status SubmitThroughHost(uint64_t bytes);
  Status CheckArrival(const std::function<Status(uint64_t bytes)>& submit);
  Status PutPattern(TimedStream& stream, const GpuMemory& memory, uint64_t bytes, uint64_t seed);

  const std::shared_ptr<Gpu> from_;
  const std::shared_ptr<Gpu> to_;
  const uint64_t bytes_;
  os::Mapping host_;  // slots of pieces, pinned
  bool pinned_ = false;
  std::unique_ptr<GpuMemory> source_;       // on `from`
  std::unique_ptr<GpuMemory> target_;       // on `to`
  std::unique_ptr<GpuMemory> back_source_;  // on `to`
  std::unique_ptr<GpuMemory> back_target_;  // on `from`
  std::vector<CUevent> left_;               // a slot's piece has left it; of `to`
  uint64_t pieces_ = 0;                     // through the host so far
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<TimedStream> forward_;   // of `from`; the streams end first
  std::unique_ptr<TimedStream> backward_;  // of `to`
};

}  // namespace onecopy::bench
