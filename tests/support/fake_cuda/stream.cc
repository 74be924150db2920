// The fake driver's streams (a thread each), events and copies.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/state.h"
#include "transport/core/base/mutex.h"

// The header maps this name to the newer function, which drivers before CUDA 12.8 lack.
#undef cuEventElapsedTime

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::Range;
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

// What stands in the way of giving work to a stream.
CUresult Check(CUstream stream) {
  const Stream* const found = Of(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (IsBlocked(stream)) {
    fake_cuda::NoteUnsafe();
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return found->capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Event* Of(CUevent event) { return reinterpret_cast<Event*>(event); }

bool Reaches(const Context& context, const Range& range) {
  if (range.kind == FAKE_CUDA_VMM || range.kind == FAKE_CUDA_VMM_NO_HANDLE) {
    return range.reached_by.contains(context.device);
  }
  if (range.device == context.device) return true;
  for (const Context* peer : context.peers) {
    if (peer->device == range.device) return true;
  }
  return false;
}

// Mappings of cuMemCreate that lie side by side are as one.
bool ReachesDevice(const Context& context, CUdeviceptr address, size_t bytes) {
  for (bool first = true;; first = false) {
    CUdeviceptr start = 0;
    const Range* const range = FindRange(address, 1, &start);
    if (range == nullptr || !Reaches(context, *range)) return false;
    const bool mapped = range->kind == FAKE_CUDA_VMM || range->kind == FAKE_CUDA_VMM_NO_HANDLE;
    if (!first && !mapped) return false;
    const size_t here = start + range->bytes - address;
    if (bytes <= here) return true;
    if (!mapped) return false;
    address += here;
    bytes -= here;
  }
}

// What the real driver does of its own accord where an end was opened in another GPU's context, or
// where a test asks for it.
bool IsStaged(const Context& context, CUdeviceptr to, CUdeviceptr from) {
  const Range* const there = FindRange(to, 1);
  const Range* const here = FindRange(from, 1);
  const char* const text = std::getenv("FAKE_CUDA_STAGES");
  const std::string asked = text == nullptr ? "" : text;
  const bool legacy = there->imported && there->kind == FAKE_CUDA_LEGACY;
  if (legacy && there->device != context.device) return true;
  if (asked == "all") return there->device != here->device || legacy;
  return asked == "imported" && legacy;
}

void CopyThroughHost(void* to, const void* from, size_t bytes) {
  constexpr int kTimesSlower = 20;
  std::vector<char> host(bytes);
  for (int i = 0; i < kTimesSlower; ++i) std::memcpy(host.data(), from, bytes);
  std::memmove(to, host.data(), bytes);
}

// A copy must reach both ends by itself.
CUresult Copy(uintptr_t to, bool to_device, uintptr_t from, bool from_device, size_t bytes,
              CUstream stream) {
  const Context* const context = Current();
  if (!fake_cuda::IsCurrent(stream)) return CUDA_ERROR_INVALID_CONTEXT;
  bool staged = false;
  {
    const std::lock_guard lock(TheState().mutex);
    const auto reaches = [&](uintptr_t address, bool device) {
      return device ? ReachesDevice(*context, address, bytes)
                    : fake_cuda::IsPinned(reinterpret_cast<const void*>(address), bytes);
    };
    if (!reaches(to, to_device) || !reaches(from, from_device)) return CUDA_ERROR_INVALID_VALUE;
    staged = to_device && from_device && bytes > 0 && IsStaged(*context, to, from);
    if (staged) TheState().staged_bytes += bytes;
  }
  Of(stream)->Submit([=] {
    auto* const target = reinterpret_cast<void*>(to);
    const auto* const source = reinterpret_cast<const void*>(from);
    if (staged) return CopyThroughHost(target, source, bytes);
    std::memmove(target, source, bytes);
  });
  return CUDA_SUCCESS;
}

}  // namespace

namespace fake_cuda {

bool IsPinned(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  for (const auto& [device, context] : TheState().contexts) {
    for (const auto& [pinned, length] : context.pins) {
      const auto first = reinterpret_cast<uintptr_t>(pinned);
      if (begin >= first && begin + bytes <= first + length) return true;
    }
  }
  return false;
}

bool Reaches(const Context& context, uintptr_t address, size_t bytes) {
  return ReachesDevice(context, address, bytes) ||
         IsPinned(reinterpret_cast<const void*>(address), bytes);
}

bool IsCurrent(CUstream stream) {
  const Stream* const found = Of(stream);
  return Current() != nullptr && found != nullptr && found->context() == Current();
}

void Submit(CUstream stream, std::function<void()> work) { Of(stream)->Submit(std::move(work)); }

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
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
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

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
  Of(stream)->Submit([mark = Of(event)->mark] {
    while (mark != nullptr && !mark->ended) std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
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
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
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
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
  if (Of(stream)->context() != Of(event)->context) return CUDA_ERROR_INVALID_HANDLE;
  Of(event)->mark = std::make_shared<Mark>();
  Of(stream)->Submit([mark = Of(event)->mark] {
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

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(to, true, reinterpret_cast<uintptr_t>(from), false, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(reinterpret_cast<uintptr_t>(to), false, from, true, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, true, from, true, bytes, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return Copy(to, true, from, true, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(TheState().mutex);
    if (!ReachesDevice(*context, to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = Check(stream); error != CUDA_SUCCESS) return error;
  Of(stream)->Submit([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}

size_t fakeCudaStagedBytes() {
  const std::lock_guard lock(TheState().mutex);
  return TheState().staged_bytes;
}

}  // extern "C"
