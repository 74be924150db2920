// The fake driver's streams: a thread each.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/state.h"
#include "transport/core/base/mutex.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::TheState;
using onecopy::Condition;
using onecopy::Mutex;
using onecopy::MutexLock;

namespace {

class Stream {
 public:
  explicit Stream(Context* context, bool blocking = false)
      : blocking(blocking), context_(context), thread_([this] { Run(); }) {}
  ~Stream() {
    Submit(nullptr);
    thread_.join();
  }

  Context* context() const { return context_; }

  // An empty function ends the thread.
  void Submit(std::function<void()> work) {
    const MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.NotifyAll();
  }
  void Synchronize() {
    const MutexLock lock(mutex_);
    while (!queue_.empty() || running_) changed_.Wait(mutex_);
  }

 private:
  static unsigned long long NextId() {
    static std::atomic<unsigned long long> last = 0;
    return ++last;
  }

  void Run() {
    MutexLock lock(mutex_);
    while (true) {
      while (queue_.empty()) changed_.Wait(mutex_);
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      if (!work) return;
      running_ = true;
      lock.Unlock();
      work();
      lock.Lock();
      running_ = false;
      changed_.NotifyAll();
    }
  }

 public:
  std::atomic<bool> capturing{false};
  std::atomic<cuuint64_t> capture{0};  // the number of the last one
  const bool blocking;                 // with the legacy default stream
  const unsigned long long id = NextId();

 private:
  Context* const context_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> queue_ ONECOPY_GUARDED_BY(mutex_);
  bool running_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last
};

// What a handle is: those of destroyed streams are had again, the last one first.
struct Handle {
  Stream* stream = nullptr;
};

struct Streams {
  std::mutex mutex;
  std::vector<std::unique_ptr<Handle>> handles;  // all
  std::vector<Handle*> free;
  std::set<Stream*> live;
  std::map<Context*, std::unique_ptr<Stream>> defaults;
  std::atomic<int> dead_named = 0;
};

Streams& TheStreams() {
  static Streams* const streams = new Streams;  // outlives the threads of streams
  return *streams;
}

thread_local std::map<Context*, std::unique_ptr<Stream>> own_defaults;

Stream* Default(std::map<Context*, std::unique_ptr<Stream>>& of) {
  if (Current() == nullptr) return nullptr;
  std::unique_ptr<Stream>& stream = of[Current()];
  if (stream == nullptr) stream = std::make_unique<Stream>(Current());
  return stream.get();
}

// Null for none; the default streams are the current context's.
Stream* Of(CUstream stream) {
  if (stream == CU_STREAM_PER_THREAD) return Default(own_defaults);
  if (stream == nullptr || stream == CU_STREAM_LEGACY) {
    const std::lock_guard lock(TheStreams().mutex);
    return Default(TheStreams().defaults);
  }
  Stream* const found = reinterpret_cast<Handle*>(stream)->stream;
  if (found == nullptr) ++TheStreams().dead_named;
  return found;
}

// Whether the legacy default stream cannot be used, as one that it waits for captures.
bool IsBlocked(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_LEGACY) return false;
  const std::lock_guard lock(TheStreams().mutex);
  return std::any_of(TheStreams().live.begin(), TheStreams().live.end(), [](const Stream* each) {
    return each->blocking && each->capturing && each->context() == Current();
  });
}

}  // namespace

namespace fake_cuda {

bool IsCurrent(CUstream stream) {
  const Stream* const found = Of(stream);
  return Current() != nullptr && found != nullptr && found->context() == Current();
}

void Submit(CUstream stream, std::function<void()> work) { Of(stream)->Submit(std::move(work)); }

Context* ContextOf(CUstream stream) { return Of(stream)->context(); }

CUresult Check(CUstream stream) {
  const Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (IsBlocked(stream)) {
    NoteUnsafe();
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return found->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace fake_cuda

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto* const made = new Stream(context, flags != CU_STREAM_NON_BLOCKING);
  {
    const std::lock_guard lock(TheStreams().mutex);
    std::vector<Handle*>& free = TheStreams().free;
    if (free.empty()) {
      TheStreams().handles.push_back(std::make_unique<Handle>());
      free.push_back(TheStreams().handles.back().get());
    }
    free.back()->stream = made;
    *stream = reinterpret_cast<CUstream>(free.back());
    free.pop_back();
    TheStreams().live.insert(made);
  }
  const std::lock_guard lock(TheState().mutex);
  ++context->streams;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context* const context = found->context();
  {
    const std::lock_guard lock(TheStreams().mutex);
    TheStreams().live.erase(found);
  }
  delete found;
  {
    const std::lock_guard lock(TheStreams().mutex);
    auto* const handle = reinterpret_cast<Handle*>(stream);
    handle->stream = nullptr;
    TheStreams().free.push_back(handle);
  }
  const std::lock_guard lock(TheState().mutex);
  --context->streams;
  return CUDA_SUCCESS;
}

int fakeCudaDeadStreams() { return TheStreams().dead_named; }

CUresult cuStreamSynchronize(CUstream stream) {
  fake_cuda::NoteUnsafe();
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  Of(stream)->Synchronize();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  fake_cuda::NoteUnsafe();
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<Stream*> all;
  {
    const std::lock_guard lock(TheStreams().mutex);
    all.assign(TheStreams().live.begin(), TheStreams().live.end());
    for (const auto& [of, stream] : TheStreams().defaults) all.push_back(stream.get());
  }
  std::erase_if(all, [&](const Stream* each) { return each->context() != context; });
  for (const Stream* each : all) {
    if (!each->capturing) continue;
    fake_cuda::NoteSpoiled();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  for (Stream* each : all) each->Synchronize();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (IsBlocked(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = found->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  const Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->capturing) {
    fake_cuda::NoteSpoiled();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *id = found->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** edges, size_t* count) {
  const CUresult error = cuStreamIsCapturing(stream, status);
  if (error != CUDA_SUCCESS) return error;
  if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) *id = Of(stream)->capture;
  *graph = nullptr;
  *dependencies = nullptr;
  *edges = nullptr;
  *count = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  const Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *context = reinterpret_cast<CUcontext>(found->context());
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  {
    const std::lock_guard lock(TheState().mutex);
    if (!fake_cuda::IsPinned(reinterpret_cast<void*>(address), sizeof value)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  Of(stream)->Submit([address, value] {
    auto& word = *reinterpret_cast<cuuint32_t*>(address);
    while (std::atomic_ref(word).load() != value) std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  if (const CUresult error = fake_cuda::Check(stream); error != CUDA_SUCCESS) return error;
  Of(stream)->Submit([function, data] { function(data); });
  return CUDA_SUCCESS;
}

void fakeCudaCapture(CUstream stream, bool capturing) {
  static std::atomic<cuuint64_t> last = 0;
  if (capturing) Of(stream)->capture = ++last;
  if (Of(stream)->capturing.exchange(capturing) != capturing) {
    TheState().captures += capturing ? 1 : -1;
  }
}

void fakeCudaFork(CUstream from, CUstream to) {
  Of(to)->capture = Of(from)->capture.load();
  if (!Of(to)->capturing.exchange(true)) ++TheState().captures;
}

}  // extern "C"
