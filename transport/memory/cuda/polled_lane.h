// Copies of one GPU that the requesting thread starts and follows: on a stream of their own, with
// events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/contracts/small_copy_route.h"
#include "transport/memory/cuda/copy_stream.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/scatter_kernel.h"
#include "transport/shim/cuda.h"

namespace onecopy::cuda {

// Made and destroyed on a thread that may block; else used by one thread, the same for all routes
// that share it. In order, whatever the direction.
class PolledLane {
 public:
  static Result<std::shared_ptr<PolledLane>> Open(GpuUse gpu);
  ~PolledLane();
  PolledLane(const PolledLane&) = delete;
  PolledLane& operator=(const PolledLane&) = delete;

  // On a thread that may block, before the first copy: loads the scatter kernel. Without effect
  // where that does not work, or is not wanted.
  void OpenLists();
  // Pieces of at most kMostPieceBytes are copied by lists, kMostPieces in each.
  bool takes_lists() const { return kernel_ != nullptr; }
  static constexpr uint64_t kMostPieceBytes = uint64_t{64} << 10;
  static constexpr size_t kMostPieces = 1024;

  // As SmallCopyRoute::BeginMany, between memories of GPUs, by one launch of the scatter kernel.
  Status BeginMany(uintptr_t from, uintptr_t to, std::span<const CopyPiece> pieces, uint64_t bytes);
  // As SmallCopyRoute.
  Status Begin(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes);
  uint64_t Mark();
  bool Reached(uint64_t mark, Status* failure);

 private:
  // That one client can need; there are more once there are more clients.
  static constexpr uint64_t kEvents = 256;
  static constexpr size_t kLists = 8;  // under way at a time

  explicit PolledLane(GpuUse gpu) : gpu_(std::move(gpu)) {}
  Status Make();
  CUevent& EventOf(uint64_t mark) { return events_[mark % events_.size()]; }
  void ReleaseLists();
  // Makes more events if all are in use, so that no thread waits for the GPU.
  void Grow();
  // The GPU can do nothing more: its copies will never end by themselves.
  void Break(CUresult error);

  GpuUse gpu_;
  CopyStream stream_;
  std::vector<CUevent> events_ = std::vector<CUevent>(kEvents);  // made when first used
  uint64_t marked_ = 0;                                          // the last mark
  uint64_t reached_ = 0;
  bool begun_ = false;  // something, since the last mark
  std::unique_ptr<ScatterKernel> kernel_;
  std::vector<ScatterTile> tiles_;  // of the next launch
  // What launches read, by the mark at which they have ended.
  std::deque<std::pair<uint64_t, ScatterKernel::List>> lists_;
  Status broken_;
};

}  // namespace onecopy::cuda
