// One order of work on a GPU, whose copies leave room for those of others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/core/ranges/scatter.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

enum class Direction { kToGpu, kFromGpu, kToPeer, kInside };
inline constexpr size_t kDirections = 4;

inline constexpr bool IsOverPcie(Direction direction) {
  return direction == Direction::kToGpu || direction == Direction::kFromGpu;
}

// Two streams. A copy engine serves one stream until that has nothing to do, and all others wait,
// for ever if need be. So after each turn the work goes on in the other stream, which waits for the
// first one: at that moment it has nothing to do, and others get their turn. Everything stays in
// order.
//
// One thread at a time, with the GPU's context current in every call, and open throughout. Copies
// are between addresses that the GPU reaches; host memory is pinned, else the driver would copy it
// twice. They never wait for other processes' kernels, but within one GPU, where the driver copies
// by a kernel of its own.
class CopyStream {
 public:
  // How many bytes a turn has: over PCIe for about 150 us, over NVLink for 100. Nothing inside a
  // GPU, which divides its time by itself.
  static constexpr uint64_t kPcieTurnBytes = uint64_t{8} << 20;
  static constexpr uint64_t kPeerTurnBytes = uint64_t{32} << 20;
  // Where no other of these has copied from that GPU to another for a second: yielding costs 6 % of
  // the rate otherwise.
  static constexpr uint64_t kLonePeerTurnBytes = uint64_t{128} << 20;

  CopyStream() = default;
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  // Before all others. Non-blocking: no order with the default stream, which other code in the
  // process may use. `api` outlives this; `context` is the GPU's.
  CUresult Open(const shim::CudaApi& api, CUcontext context);
  // Nothing may be under way. Without it, the streams go with the context. Also after an Open that
  // failed.
  void Close();

  // Where one of these fails, a part may be under way.
  CUresult Copy(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes);
  CUresult Copy(Direction direction, const StridedCopy& copy);
  // That takes the next work: of a caller who submits something else.
  CUstream stream() const { return stream_; }

  CUresult Record(CUevent event) { return api_->EventRecord(event, stream_); }
  // Waits for all that was submitted.
  CUresult Synchronize() { return api_->StreamSynchronize(stream_); }

 private:
  // Of all that copy from one GPU to others.
  struct Peers;
  static Peers& PeersOf(CUcontext context);

  uint64_t TurnBytes(Direction direction);
  // Before so many bytes more.
  CUresult Yield(Direction direction, uint64_t bytes, uint64_t turn_bytes);
  CUresult CopyRows(Direction direction, const StridedCopy& copy);
  CUresult CopySmallToGpu(uintptr_t from, uintptr_t to, uint64_t bytes);
  CUresult Submit(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes);

  const shim::CudaApi* api_ = nullptr;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUevent yielded_ = nullptr;
  Peers* peers_ = nullptr;
  uint64_t since_yield_bytes_ = 0;
};

}  // namespace onecopy::cuda
