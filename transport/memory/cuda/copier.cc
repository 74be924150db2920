#include "transport/memory/cuda/copier.h"

#include <cassert>

#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {
namespace {

// What every driver takes as a stride of a copy in two dimensions.
constexpr uint64_t kMostPitch = 0x7fffffff;
constexpr uint64_t kScratch = 32;  // of one direction: one half is copied to the other

bool IsOverPcie(Direction direction) {
  return direction == Direction::kToGpu || direction == Direction::kFromGpu;
}

CUresult CopyRows(const shim::CudaApi& api, Direction direction, const StridedCopy& copy,
                  CUstream stream) {
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
  return api.Memcpy2DAsync(&rows, stream);
}

}  // namespace

CUresult SubmitCopy(const shim::CudaApi& api, Direction direction, uintptr_t from, uintptr_t to,
                    uint64_t bytes, CUstream stream) {
  switch (direction) {
    case Direction::kToGpu:
      return api.MemcpyHtoDAsync(to, reinterpret_cast<const void*>(from), bytes, stream);
    case Direction::kFromGpu:
      return api.MemcpyDtoHAsync(reinterpret_cast<void*>(to), from, bytes, stream);
    case Direction::kToPeer:
    case Direction::kInside:
      break;
  }
  return api.MemcpyDtoDAsync(to, from, bytes, stream);
}

Copier::~Copier() {
  for (Queue& queue : queues_) {
    // Routes are gone, but what woke the driver for one of them may not have ended.
    if (!queue.operations.empty()) {
      gpu_.api().StreamSynchronize(queue.stream);
      PollQueue(queue);
    }
    assert(queue.operations.empty());
    if (queue.stream != nullptr) gpu_.api().StreamDestroy(queue.stream);
  }
  for (CUevent event : idle_events_) gpu_.api().EventDestroy(event);
  if (scratch_ != 0) gpu_.api().MemFree(scratch_);
}

CUresult Copier::Open() {
  for (Queue& queue : queues_) {
    // Non-blocking: no order with the default stream, which other code in the process may use.
    const CUresult error = gpu_.api().StreamCreate(&queue.stream, CU_STREAM_NON_BLOCKING);
    if (error != CUDA_SUCCESS) return error;
  }
  // Where there is no room even for this, the first copies are slower.
  if (gpu_.api().MemAlloc(&scratch_, kDirections * kScratch) != CUDA_SUCCESS) scratch_ = 0;
  return CUDA_SUCCESS;
}

void Copier::Enqueue(Queue& queue, Operation operation) {
  queue.operations.push_back(std::move(operation));
  gpu_.loop().KickPoller();
}

template <typename Begin>
void Copier::Start(Direction direction, Operation operation, const Begin& begin,
                   const ScatterKernel::List* list) {
  Queue& queue = queues_[static_cast<size_t>(direction)];
  operation.failure = gpu_.lost();
  if (!operation.failure.ok()) return Enqueue(queue, std::move(operation));
  CUresult error = TakeEvent(&operation.event);
  if (error == CUDA_SUCCESS) error = begin(queue.stream);
  if (list != nullptr) operation.list = *list;
  if (error == CUDA_SUCCESS) {
    error = gpu_.api().EventRecord(operation.event, queue.stream);
    // Nothing would tell when the memory is let go.
    if (error != CUDA_SUCCESS) gpu_.api().StreamSynchronize(queue.stream);
  }
  if (error != CUDA_SUCCESS) {
    operation.failure = gpu_.WorkFailure(error, "starting a copy on " + gpu_.ToString());
  }
  Enqueue(queue, std::move(operation));
}

void Copier::Copy(Direction direction, uintptr_t from, uintptr_t to, uint64_t bytes, StepList steps,
                  Done done) {
  Operation operation{nullptr, OkStatus(), std::move(steps), std::move(done), {}};
  if (bytes == 0) {
    return Enqueue(queues_[static_cast<size_t>(direction)], std::move(operation));
  }
  const shim::CudaApi& api = gpu_.api();
  Start(direction, std::move(operation),
        [&](CUstream stream) { return SubmitCopy(api, direction, from, to, bytes, stream); });
}

void Copier::CopyMany(Direction direction, std::vector<StridedCopy> copies,
                      const ScatterSteps& steps, Done done) {
  if (copies.empty()) {
    return Enqueue(queues_[static_cast<size_t>(direction)],
                   {nullptr, OkStatus(), steps.by_engine, std::move(done), {}});
  }
  const bool by_kernel = ByKernel(copies, IsOverPcie(direction));
  ScatterKernel::List list;
  Start(
      direction,
      {nullptr, OkStatus(), by_kernel ? steps.by_kernel : steps.by_engine, std::move(done), {}},
      [&](CUstream stream) {
        if (by_kernel) return kernel_.Launch(TilesOf(copies), stream, &list);
        CUresult error = CUDA_SUCCESS;
        for (const StridedCopy& copy : copies) {
          error = Submit(direction, copy, stream);
          if (error == CUDA_SUCCESS) continue;
          // Those that were submitted must not outlive this one's end.
          gpu_.api().StreamSynchronize(stream);
          break;
        }
        return error;
      },
      &list);
}

bool Copier::ByKernel(const std::vector<StridedCopy>& copies, bool over_pcie) {
  switch (gpu_.options().scatter) {
    case Scattering::kCopyEngine:
      return false;
    case Scattering::kKernel:
      return kernel_.Works(over_pcie);
    case Scattering::kAuto:
      break;
  }
  return WantsKernel(copies, over_pcie) && kernel_.Works(over_pcie);
}

CUresult Copier::Submit(Direction direction, const StridedCopy& copy, CUstream stream) {
  const shim::CudaApi& api = gpu_.api();
  if (copy.count > 1 && copy.from_stride <= kMostPitch && copy.to_stride <= kMostPitch) {
    return CopyRows(api, direction, copy, stream);
  }
  for (uint64_t i = 0; i < copy.count; ++i) {
    const CUresult error = SubmitCopy(api, direction, copy.from + i * copy.from_stride,
                                      copy.to + i * copy.to_stride, copy.bytes, stream);
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_SUCCESS;
}

void Copier::Zero(CUdeviceptr address, uint64_t bytes, Done done) {
  Start(Direction::kInside, {nullptr, OkStatus(), nullptr, std::move(done), {}},
        [&](CUstream stream) { return gpu_.api().MemsetD8Async(address, 0, bytes, stream); });
}

void Copier::Awaken(Direction direction) {
  if (scratch_ == 0 || !queues_[static_cast<size_t>(direction)].operations.empty()) return;
  Start(direction, {nullptr, OkStatus(), nullptr, [](const Status&, const StepList&) {}, {}},
        [&](CUstream stream) {
          const CUdeviceptr own = scratch_ + static_cast<size_t>(direction) * kScratch;
          return gpu_.api().MemcpyDtoDAsync(own + kScratch / 2, own, kScratch / 2, stream);
        });
}

CUresult Copier::TakeEvent(CUevent* event) {
  if (idle_events_.empty()) return gpu_.api().EventCreate(event, CU_EVENT_DISABLE_TIMING);
  *event = idle_events_.back();
  idle_events_.pop_back();
  return CUDA_SUCCESS;
}

bool Copier::Poll() {
  bool busy = false;
  for (Queue& queue : queues_) PollQueue(queue);
  for (const Queue& queue : queues_) busy |= !queue.operations.empty();
  return busy;
}

void Copier::PollQueue(Queue& queue) {
  // Bounded by what was there at the start: a completion may begin the next copy.
  for (size_t left = queue.operations.size(); left > 0; --left) {
    Operation& head = queue.operations.front();
    if (head.event != nullptr && head.failure.ok()) {
      const CUresult result = gpu_.api().EventQuery(head.event);
      if (result == CUDA_ERROR_NOT_READY) return;
      if (result != CUDA_SUCCESS) {
        head.failure = gpu_.WorkFailure(result, "copying on " + gpu_.ToString());
      }
    }
    Operation ended = std::move(head);
    queue.operations.pop_front();
    if (ended.event != nullptr) idle_events_.push_back(ended.event);
    if (ended.list.tiles != nullptr) kernel_.GiveBack(ended.list);
    gpu_.loop().PollerFound();
    ended.done(ended.failure, ended.steps);
  }
}

}  // namespace onecopy::cuda
