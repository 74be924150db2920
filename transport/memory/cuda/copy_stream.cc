#include "transport/memory/cuda/copy_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <utility>

#include "transport/core/base/mutex.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {
namespace {

// Shorter copies to a GPU travel inside the command, which the compute engine then runs: beside
// another process's kernels they wait for 2 ms. In two rows they are a copy engine's, as quickly.
constexpr uint64_t kInlineBelow = 32 << 10;
constexpr uint64_t kInsideBytes = uint64_t{64} << 20;  // of one command, within a GPU

using Clock = std::chrono::steady_clock;

}  // namespace

// Any thread.
struct CopyStream::Peers {
  std::atomic<const CopyStream*> last{nullptr};
  std::atomic<Clock::rep> shared_at{Clock::time_point::min().time_since_epoch().count()};
};

// As many as there are GPUs; they stay, as a stream may end with its context.
CopyStream::Peers& CopyStream::PeersOf(CUcontext context) {
  static auto* const mutex = new Mutex;
  static auto* const all = new std::map<CUcontext, Peers>;
  const MutexLock lock(*mutex);
  return (*all)[context];
}

uint64_t CopyStream::TurnBytes(Direction direction) {
  if (IsOverPcie(direction)) return kPcieTurnBytes;
  if (direction == Direction::kInside) return kInsideBytes;
  const Clock::time_point now = Clock::now();
  const CopyStream* last = peers_->last.exchange(this, std::memory_order_relaxed);
  if (last != this && last != nullptr) peers_->shared_at = now.time_since_epoch().count();
  const Clock::time_point shared_at{Clock::duration(peers_->shared_at.load())};
  return now > shared_at + std::chrono::seconds(1) ? kLonePeerTurnBytes : kPeerTurnBytes;
}

CUresult CopyStream::Open(const shim::CudaApi& api, CUcontext context) {
  api_ = &api;
  peers_ = &PeersOf(context);
  CUresult error = api_->StreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  if (error == CUDA_SUCCESS) error = api_->StreamCreate(&other_, CU_STREAM_NON_BLOCKING);
  if (error == CUDA_SUCCESS) error = api_->EventCreate(&yielded_, CU_EVENT_DISABLE_TIMING);
  return error;
}

void CopyStream::Close() {
  if (yielded_ != nullptr) api_->EventDestroy(std::exchange(yielded_, nullptr));
  for (CUstream* stream : {&stream_, &other_}) {
    if (*stream != nullptr) api_->StreamDestroy(std::exchange(*stream, nullptr));
  }
}

CUresult CopyStream::Copy(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes) {
  const uint64_t most = TurnBytes(direction);
  CUresult error = CUDA_SUCCESS;
  for (uint64_t at = 0; error == CUDA_SUCCESS && at < bytes; at += most) {
    const uint64_t piece = std::min(most, bytes - at);
    error = Yield(direction, piece, most);
    if (error == CUDA_SUCCESS) error = Submit(direction, from + at, to + at, piece);
  }
  return error;
}

CUresult CopyStream::Copy(Direction direction, const StridedCopy& copy) {
  const uint64_t most = TurnBytes(direction);
  const bool rows = copy.count > 1 && copy.bytes > 0 && copy.bytes <= most &&
                    copy.from_stride <= kMaxPitch && copy.to_stride <= kMaxPitch;
  const uint64_t at_once = rows ? most / copy.bytes : 1;
  CUresult error = CUDA_SUCCESS;
  for (uint64_t i = 0; error == CUDA_SUCCESS && i < copy.count; i += at_once) {
    StridedCopy part = copy;
    part.from += i * copy.from_stride;
    part.to += i * copy.to_stride;
    part.count = std::min(at_once, copy.count - i);
    if (part.count == 1) {
      error = Copy(direction, part.from, part.to, part.bytes);
      continue;
    }
    error = Yield(direction, part.payload(), most);
    if (error == CUDA_SUCCESS) error = CopyRows(direction, part);
  }
  return error;
}

CUresult CopyStream::Yield(Direction direction, uint64_t bytes, uint64_t turn_bytes) {
  if (direction == Direction::kInside) return CUDA_SUCCESS;
  since_yield_bytes_ += bytes;
  if (since_yield_bytes_ <= turn_bytes) return CUDA_SUCCESS;
  since_yield_bytes_ = bytes;
  CUresult error = Record(yielded_);
  if (error == CUDA_SUCCESS) error = api_->StreamWaitEvent(other_, yielded_, 0);
  if (error == CUDA_SUCCESS) std::swap(stream_, other_);
  return error;
}

CUresult CopyStream::Submit(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes) {
  switch (direction) {
    case Direction::kToGpu:
      if (bytes > 1 && bytes < kInlineBelow) return CopySmallToGpu(from, to, bytes);
      return api_->MemcpyHtoDAsync(to, reinterpret_cast<const void*>(from), bytes, stream_);
    case Direction::kFromGpu:
      return api_->MemcpyDtoHAsync(reinterpret_cast<void*>(to), from, bytes, stream_);
    case Direction::kToPeer:
    case Direction::kInside:
      break;
  }
  return api_->MemcpyDtoDAsync(to, from, bytes, stream_);
}

CUresult CopyStream::CopyRows(Direction direction, const StridedCopy& copy) {
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = direction == Direction::kToGpu ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  rows.dstMemoryType = direction == Direction::kFromGpu ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  rows.srcHost = reinterpret_cast<const void*>(copy.from);
  rows.srcDevice = copy.from;
  rows.srcPitch = copy.from_stride;
  rows.dstHost = reinterpret_cast<void*>(copy.to);
  rows.dstDevice = copy.to;
  rows.dstPitch = copy.to_stride;
  rows.WidthInBytes = copy.bytes;
  rows.Height = copy.count;
  return api_->Memcpy2DAsync(&rows, stream_);
}

// In two rows. The last of an odd number of bytes goes once more, with the one before.
CUresult CopyStream::CopySmallToGpu(uintptr_t from, uintptr_t to, uint64_t bytes) {
  const uint64_t half = bytes / 2;
  const CUresult error = CopyRows(Direction::kToGpu, {from, to, half, half, half, 2});
  if (error != CUDA_SUCCESS || bytes % 2 == 0) return error;
  const uint64_t last = bytes - 2;
  return CopyRows(Direction::kToGpu, {from + last, to + last, 1, 1, 1, 2});
}

}  // namespace onecopy::cuda
