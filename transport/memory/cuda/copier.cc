#include "transport/memory/cuda/copier.h"

#include <cassert>

#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

Copier::~Copier() {
  for (const Queue& queue : queues_) {
    assert(queue.operations.empty());
    if (queue.stream != nullptr) gpu_.api().StreamDestroy(queue.stream);
  }
  for (CUevent event : idle_events_) gpu_.api().EventDestroy(event);
}

CUresult Copier::Open() {
  for (Queue& queue : queues_) {
    // Non-blocking: no order with the default stream, which other code in the process may use.
    const CUresult error = gpu_.api().StreamCreate(&queue.stream, CU_STREAM_NON_BLOCKING);
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_SUCCESS;
}

void Copier::Enqueue(Queue& queue, Operation operation) {
  queue.operations.push_back(std::move(operation));
  gpu_.loop().KickPoller();
}

template <typename Submit>
void Copier::Start(Direction direction, Operation operation, const Submit& submit) {
  Queue& queue = queues_[static_cast<size_t>(direction)];
  operation.failure = gpu_.lost();
  if (!operation.failure.ok()) return Enqueue(queue, std::move(operation));
  CUresult error = TakeEvent(&operation.event);
  if (error == CUDA_SUCCESS) error = submit(queue.stream);
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
  Operation operation{nullptr, OkStatus(), std::move(steps), std::move(done)};
  if (bytes == 0) {
    return Enqueue(queues_[static_cast<size_t>(direction)], std::move(operation));
  }
  const shim::CudaApi& api = gpu_.api();
  Start(direction, std::move(operation), [&](CUstream stream) {
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
  });
}

void Copier::Zero(CUdeviceptr address, uint64_t bytes, Done done) {
  Start(Direction::kInside, {nullptr, OkStatus(), nullptr, std::move(done)},
        [&](CUstream stream) { return gpu_.api().MemsetD8Async(address, 0, bytes, stream); });
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
    ended.done(ended.failure, ended.steps);
  }
}

}  // namespace onecopy::cuda
