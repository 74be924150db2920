#include "transport/memory/cuda/polled_lane.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {

Result<std::shared_ptr<PolledLane>> PolledLane::Open(GpuUse gpu) {
  std::shared_ptr<PolledLane> lane(new PolledLane(std::move(gpu)));
  ONECOPY_RETURN_IF_ERROR(lane->Make());
  return lane;
}

Status PolledLane::Make() {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  CUresult error = scope.outcome();
  if (error == CUDA_SUCCESS) error = stream_.Open(api, gpu_->context());
  if (error == CUDA_SUCCESS) return OkStatus();
  return gpu_->Failure(error, "making a stream for small copies on " + gpu_->ToString(),
                       Code::kFailedPrecondition, reasons::kDriverFailed);
}

PolledLane::~PolledLane() {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  kernel_.reset();
  if (scope.outcome() != CUDA_SUCCESS) return;  // lost: nothing can be given back
  for (CUevent event : events_) {
    if (event != nullptr) api.EventDestroy(event);
  }
  stream_.Close();
}

Status PolledLane::Begin(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes) {
  if (!broken_.ok()) return broken_;
  // Each time: the thread serves other GPUs too, and the context may be another one under the same
  // handle.
  CUresult error = gpu_->api().CtxSetCurrent(gpu_->context());
  if (error == CUDA_SUCCESS) error = stream_.Copy(direction, from, to, bytes);
  if (error == CUDA_SUCCESS) {
    begun_ = true;
    return OkStatus();
  }
  // What was submitted must not outlive the copy's end.
  stream_.Synchronize();
  return gpu_->WorkFailure(error, "starting a copy on " + gpu_->ToString());
}

void PolledLane::OpenLists() {
  if (gpu_->options().scatter == Scattering::kCopyEngine) return;
  const shim::ScopedCudaContext scope(gpu_->api(), gpu_->context());
  if (scope.outcome() != CUDA_SUCCESS) return;
  auto kernel = std::make_unique<ScatterKernel>(*gpu_);
  // A piece may take a tile more than its share of them.
  constexpr size_t kMostTiles = 2 * kMostPieces;
  if (!kernel->Works(false) || kernel->Reserve(kLists, kMostTiles) != CUDA_SUCCESS) return;
  tiles_.reserve(kMostTiles);
  kernel_ = std::move(kernel);
}

Status PolledLane::BeginMany(uintptr_t from, uintptr_t to, std::span<const CopyPiece> pieces,
                             uint64_t bytes) {
  if (!broken_.ok()) return broken_;
  if (!kernel_->HasIdle()) {
    return {Code::kResourceExhausted, reasons::kQuota,
            "as many lists of pieces as " + gpu_->ToString() + " has room for are under way",
            "try again when one of them has ended"};
  }
  CutEqual(from, to, pieces, bytes, &tiles_);
  CUresult error = gpu_->api().CtxSetCurrent(gpu_->context());
  ScatterKernel::List list;
  if (error == CUDA_SUCCESS) {
    error = kernel_->Launch(tiles_, stream_.stream(), &list);
    // Until the next mark has been reached.
    if (list.tiles != nullptr) lists_.emplace_back(marked_ + 1, list);
  }
  begun_ = begun_ || list.tiles != nullptr;
  if (error == CUDA_SUCCESS) return OkStatus();
  return gpu_->WorkFailure(error, "starting the copies of a list on " + gpu_->ToString());
}

void PolledLane::ReleaseLists() {
  while (!lists_.empty() && lists_.front().first <= reached_) {
    kernel_->GiveBack(lists_.front().second);
    lists_.pop_front();
  }
}

uint64_t PolledLane::Mark() {
  if (!std::exchange(begun_, false)) return marked_;
  const shim::CudaApi& api = gpu_->api();
  if (marked_ - reached_ == events_.size()) Grow();
  const uint64_t mark = ++marked_;
  CUevent& event = EventOf(mark);
  // As in Begin: meanwhile the thread may have begun copies of another GPU.
  CUresult error = api.CtxSetCurrent(gpu_->context());
  if (error == CUDA_SUCCESS && event == nullptr) {
    error = api.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  }
  if (error == CUDA_SUCCESS) error = stream_.Record(event);
  // Nothing would tell when the memory is free.
  if (error != CUDA_SUCCESS) Break(error);
  return mark;
}

void PolledLane::Grow() {
  std::vector<CUevent> fewer(2 * events_.size());
  fewer.swap(events_);
  for (uint64_t mark = reached_ + 1; mark <= marked_; ++mark) {
    EventOf(mark) = fewer[mark % fewer.size()];
  }
}

void PolledLane::Break(CUresult error) {
  const Status failure = gpu_->WorkFailure(error, "copying on " + gpu_->ToString());
  if (broken_.ok()) broken_ = failure;
  stream_.Synchronize();
  reached_ = marked_;
}

bool PolledLane::Reached(uint64_t mark, Status* failure) {
  if (mark > reached_) {
    // The oldest first: one look each at what has ended.
    while (reached_ < marked_) {
      const CUresult result = gpu_->api().EventQuery(EventOf(reached_ + 1));
      if (result == CUDA_ERROR_NOT_READY) break;
      if (result != CUDA_SUCCESS) {
        Break(result);
        break;
      }
      ++reached_;
      if (reached_ >= mark) break;
    }
    ReleaseLists();
    if (mark > reached_) return false;
  }
  if (!broken_.ok()) *failure = broken_;
  return true;
}

}  // namespace onecopy::cuda
