#include "client/lib/pool/gpu_streams.h"

#include <chrono>
#include <string>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

constexpr StreamHandle kLegacyKey = 0;
constexpr StreamHandle kPerThread = 2;
// Keys are ids of streams twice, and never the legacy one; with this bit those of captures.
constexpr StreamHandle kCaptured = 1;
constexpr std::chrono::microseconds kEventTakes{200};

// By its own name: what 0 means depends on how a program was compiled.
CUstream Legacy() { return CU_STREAM_LEGACY; }

bool IsLegacy(StreamHandle stream) { return stream <= 1; }
bool IsCaptured(StreamHandle key) { return (key & kCaptured) != 0; }
CUstream Of(StreamHandle stream) {
  return IsLegacy(stream) ? Legacy() : reinterpret_cast<CUstream>(stream);
}

Status Capturing(const char* what) {
  return {Code::kFailedPrecondition, reasons::kStreamCapturing, what,
          "end the capture first; ReleaseStream gives back what its graphs used"};
}

}  // namespace

GpuStreams::~GpuStreams() {
  const GpuDevice::Scope scope(*gpu_);
  if (!scope.status().ok()) return;
  const MutexLock lock(mutex_);
  for (const auto& [key, known] : known_) {
    if (known.freed != nullptr) gpu_->api().EventDestroy(known.freed);
  }
}

Status GpuStreams::CheckDriver(StreamHandle stream) const {
  const shim::CudaApi& api = gpu_->api();
  const char* lacks = nullptr;
  if (api.StreamIsCapturing == nullptr) lacks = "cuStreamIsCapturing";
  if (api.StreamWaitEvent == nullptr) lacks = "cuStreamWaitEvent";
  if (api.EventSynchronize == nullptr) lacks = "cuEventSynchronize";
  // The handle is another stream on each thread.
  if (api.StreamGetId == nullptr && stream == kPerThread) lacks = "cuStreamGetId";
  if (lacks == nullptr) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kDriverTooOld,
          std::string("the driver cannot report the stream's state: it lacks ") + lacks,
          "leave out the stream: the default one needs no such call"};
}

Result<StreamHandle> GpuStreams::AskKey(StreamHandle stream) {
  if (IsLegacy(stream)) return kLegacyKey;
  ONECOPY_RETURN_IF_ERROR(CheckDriver(stream));
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  CUresult error = scope.outcome();
  unsigned long long id = stream;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (error == CUDA_SUCCESS) error = api.StreamIsCapturing(Of(stream), &capturing);
  const bool free = capturing == CU_STREAM_CAPTURE_STATUS_NONE;
  if (error == CUDA_SUCCESS && !free) return KeyOfCapture(stream);
  if (error == CUDA_SUCCESS && api.StreamGetId != nullptr) {
    error = api.StreamGetId(Of(stream), &id);
  }
  if (error != CUDA_SUCCESS) return gpu_->Failure("asking for a stream's state", error);
  return 2 * (static_cast<StreamHandle>(id) + 1);
}

// Asking a stream that captures for its own id would end the capture.
Result<StreamHandle> GpuStreams::KeyOfCapture(StreamHandle stream) {
  if (stream == kPerThread) {  // which of them, only the id tells
    return Capturing("the calling thread's default stream is capturing a graph");
  }
  if (gpu_->api().StreamGetCaptureInfo == nullptr) {
    return Status(
        Code::kFailedPrecondition, reasons::kDriverTooOld,
        "the driver cannot report what this stream captures: it lacks cuStreamGetCaptureInfo",
        "allocate before the capture");
  }
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  const CUresult error = gpu_->api().StreamGetCaptureInfo(Of(stream), &capturing, &capture, &graph,
                                                          &dependencies, &edges, &count);
  if (error != CUDA_SUCCESS) return gpu_->Failure("asking what a stream captures", error);
  if (capturing != CU_STREAM_CAPTURE_STATUS_ACTIVE) {  // nothing else was told then
    return Capturing("the stream's capture has failed");
  }
  const MutexLock lock(mutex_);
  StreamHandle& key = captured_[{capture, stream}];
  if (key == 0) key = 2 * ++last_captured_ + kCaptured;
  return key;
}

Result<StreamHandle> GpuStreams::KeyOf(StreamHandle stream) {
  ONECOPY_ASSIGN_OR_RETURN(const StreamHandle key, AskKey(stream));
  if (key == kLegacyKey) return key;
  const MutexLock lock(mutex_);
  known_[key].handle = stream;
  return key;
}

Result<StreamHandle> GpuStreams::KeyOfFreeing(StreamHandle stream) {
  ONECOPY_ASSIGN_OR_RETURN(const StreamHandle key, AskKey(stream));
  if (key == kLegacyKey) return key;
  const MutexLock lock(mutex_);
  Known& known = known_[key];
  known.handle = stream;
  if (IsCaptured(key)) return key;
  ONECOPY_RETURN_IF_ERROR(Record(&known.freed, Of(stream)));
  return key;
}

// The event, made where there is none yet.
Status GpuStreams::Record(CUevent* event, CUstream stream) const {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  CUresult error = CUDA_SUCCESS;
  if (*event == nullptr) error = gpu_->api().EventCreate(event, CU_EVENT_DISABLE_TIMING);
  if (error == CUDA_SUCCESS) error = gpu_->api().EventRecord(*event, stream);
  if (error == CUDA_SUCCESS) return OkStatus();
  Status failure = gpu_->Failure("recording the pending work of a stream", error);
  return {failure.code(), failure.reason(), failure.message(),
          "pass a stream of the GPU's primary context, which cudaSetDevice opens"};
}

// Any use of the legacy default stream would wait for a stream that captures, unless that was made
// not to block; this question does not spoil the capture.
Status GpuStreams::CheckDefault() const {
  if (gpu_->api().StreamIsCapturing == nullptr) return CheckDriver(kLegacyKey);
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult error = gpu_->api().StreamIsCapturing(Legacy(), &capturing);
  if (error == CUDA_SUCCESS && capturing == CU_STREAM_CAPTURE_STATUS_NONE) return OkStatus();
  if (error == CUDA_SUCCESS || error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return Capturing("the default stream waits for one that is capturing a graph");
  }
  return gpu_->Failure("asking for the default stream's state", error);
}

Result<CUevent> GpuStreams::EventOf(StreamHandle key) {
  Known& known = known_[key];
  if (IsCaptured(key) && !known.captures_end) {
    return Capturing("it was given back while its stream captured a graph, which may be launched");
  }
  if (key == kLegacyKey) {
    ONECOPY_RETURN_IF_ERROR(CheckDefault());
    ONECOPY_RETURN_IF_ERROR(Record(&known.freed, Legacy()));
  }
  if (known.freed != nullptr) return known.freed;
  return Status(Code::kInternal, reasons::kInternal, "an unknown stream freed memory");
}

Status GpuStreams::Follow(StreamHandle later, StreamHandle earlier) {
  if (IsCaptured(later)) return Capturing("the stream is capturing a graph");
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  ONECOPY_RETURN_IF_ERROR(CheckDriver(kLegacyKey));
  if (later == kLegacyKey) ONECOPY_RETURN_IF_ERROR(CheckDefault());
  const MutexLock lock(mutex_);
  ONECOPY_ASSIGN_OR_RETURN(CUevent const event, EventOf(earlier));
  CUstream const stream = later == kLegacyKey ? Legacy() : Of(known_[later].handle);
  const CUresult error = gpu_->api().StreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
  if (error == CUDA_SUCCESS) return OkStatus();
  return gpu_->Failure("letting a stream wait for another one", error);
}

Status GpuStreams::FollowNow(StreamHandle later, StreamHandle earlier) {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  ONECOPY_RETURN_IF_ERROR(CheckDriver(kLegacyKey));
  for (const StreamHandle stream : {later, earlier}) {
    ONECOPY_ASSIGN_OR_RETURN(const StreamHandle key, AskKey(stream));
    if (IsCaptured(key)) return Capturing("the stream is capturing a graph");
    if (key == kLegacyKey) ONECOPY_RETURN_IF_ERROR(CheckDefault());
  }
  CUevent now = nullptr;
  Status recorded = Record(&now, Of(earlier));
  CUresult error = CUDA_SUCCESS;
  if (recorded.ok()) {
    error = gpu_->api().StreamWaitEvent(Of(later), now, CU_EVENT_WAIT_DEFAULT);
  }
  if (now != nullptr) gpu_->api().EventDestroy(now);  // who waits for it has been queued
  if (!recorded.ok() || error == CUDA_SUCCESS) return recorded;
  return gpu_->Failure("letting a stream wait for another one", error);
}

Status GpuStreams::WaitForAll() const {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  const CUresult error = gpu_->api().CtxSynchronize();
  return error == CUDA_SUCCESS ? OkStatus() : gpu_->Failure("waiting for the GPU", error);
}

Status GpuStreams::Wait(StreamHandle stream) {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  ONECOPY_RETURN_IF_ERROR(CheckDriver(kLegacyKey));
  MutexLock lock(mutex_);
  ONECOPY_ASSIGN_OR_RETURN(CUevent const event, EventOf(stream));
  lock.Unlock();
  const CUresult error = gpu_->api().EventSynchronize(event);
  return error == CUDA_SUCCESS ? OkStatus() : gpu_->Failure("waiting for a stream", error);
}

// An event of the legacy stream is recorded only now, and takes some time where nothing is before
// it.
bool GpuStreams::HasEnded(StreamHandle stream) {
  const GpuDevice::Scope scope(*gpu_);
  if (!scope.status().ok() || !CheckDriver(kLegacyKey).ok()) return false;
  const MutexLock lock(mutex_);
  const Result<CUevent> event = EventOf(stream);
  if (!event.ok()) return false;
  const auto patience = std::chrono::steady_clock::now() + kEventTakes;
  CUresult ended = CUDA_ERROR_NOT_READY;
  do {
    ended = gpu_->api().EventQuery(*event);
  } while (stream == kLegacyKey && ended == CUDA_ERROR_NOT_READY &&
           std::chrono::steady_clock::now() < patience);
  return ended == CUDA_SUCCESS;
}

Result<std::vector<StreamHandle>> GpuStreams::EndCaptures(StreamHandle stream) {
  ONECOPY_ASSIGN_OR_RETURN(const StreamHandle own, AskKey(stream));
  if (IsCaptured(own)) return Capturing("the stream is capturing a graph");
  std::vector<StreamHandle> keys;
  if (own == kLegacyKey) return keys;
  keys.push_back(own);
  const MutexLock lock(mutex_);
  for (auto& [key, known] : known_) {
    if (!IsCaptured(key) || known.handle != stream) continue;
    // What the stream was given before the capture may still use what was freed in it.
    ONECOPY_RETURN_IF_ERROR(Record(&known.freed, Of(stream)));
    known.captures_end = true;
    keys.push_back(key);
  }
  return keys;
}

void GpuStreams::Forget(const std::vector<StreamHandle>& keys) {
  const GpuDevice::Scope scope(*gpu_);
  const MutexLock lock(mutex_);
  for (const StreamHandle key : keys) {
    std::erase_if(captured_, [key](const auto& each) { return each.second == key; });
    const auto found = known_.extract(key);
    if (found.empty() || found.mapped().freed == nullptr || !scope.status().ok()) continue;
    gpu_->api().EventDestroy(found.mapped().freed);
  }
}

}  // namespace onecopy::client
