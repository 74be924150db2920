// The fake driver's events.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/fake_cuda/state.h"

// The header maps this name to the newer function, which drivers before CUDA 12.8 lack.
#undef cuEventElapsedTime

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::TheState;

namespace {

using EventTime = std::chrono::steady_clock::time_point;

// That a stream has come to an event.
struct Mark {
  std::atomic<bool> ended = false;
  EventTime time = {};  // set before `ended` is
};

struct Event {
  Context* context = nullptr;
  bool timed = true;
  // Shared with the stream's thread, which may still set it when the event is gone. Null: not
  // recorded yet.
  std::shared_ptr<Mark> mark = nullptr;

  bool ended() const { return mark == nullptr || mark->ended; }
};

Event* Of(CUevent event) { return reinterpret_cast<Event*>(event); }

}  // namespace

extern "C" {

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *event = reinterpret_cast<CUevent>(new Event{context, (flags & CU_EVENT_DISABLE_TIMING) == 0});
  const std::lock_guard lock(TheState().mutex);
  ++context->events;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  {
    const std::lock_guard lock(TheState().mutex);
    --Of(event)->context->events;
  }
  delete Of(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  if (fake_cuda::ContextOf(stream) != Of(event)->context) return CUDA_ERROR_INVALID_HANDLE;
  Of(event)->mark = std::make_shared<Mark>();
  fake_cuda::Submit(stream, [mark = Of(event)->mark] {
    mark->time = std::chrono::steady_clock::now();
    mark->ended = true;
  });
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  fake_cuda::NoteUnsafe();
  const Event recorded = *Of(event);
  while (!recorded.ended()) std::this_thread::yield();
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  fake_cuda::NoteUnsafe();
  return Of(event)->ended() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  for (const CUevent event : {begin, end}) {
    if (!Of(event)->timed || Of(event)->mark == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!Of(begin)->ended() || !Of(end)->ended()) return CUDA_ERROR_NOT_READY;
  *milliseconds =
      std::chrono::duration<float, std::milli>(Of(end)->mark->time - Of(begin)->mark->time).count();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  fake_cuda::Submit(stream, [mark = Of(event)->mark] {
    while (mark != nullptr && !mark->ended) std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
