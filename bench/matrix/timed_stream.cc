#include "bench/matrix/timed_stream.h"

#include <algorithm>

namespace onecopy::bench {
namespace {

constexpr double kEventResolutionSeconds = 0.5e-6;

}  // namespace

Status WaitForEvent(const shim::CudaApi& api, CUstream stream, CUevent event) {
  const CUresult error = api.StreamWaitEvent == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                                        : api.StreamWaitEvent(stream, event, 0);
  return CudaStatus(api, error, "cuStreamWaitEvent");
}

Result<std::unique_ptr<TimedStream>> TimedStream::Create(std::shared_ptr<Gpu> gpu) {
  std::unique_ptr<TimedStream> stream(new TimedStream(std::move(gpu)));
  ONECOPY_RETURN_IF_ERROR(stream->Begin());
  return stream;
}

Status TimedStream::Begin() {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  for (CUevent* const event : {&begin_, &end_}) {
    ONECOPY_RETURN_IF_ERROR(
        CudaStatus(api, api.EventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  return CudaStatus(api, api.EventCreate(&mark_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

TimedStream::~TimedStream() {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  if (stream_ != nullptr) api.StreamSynchronize(stream_);
  for (const CUevent event : {begin_, end_, mark_}) {
    if (event != nullptr) api.EventDestroy(event);
  }
  if (stream_ != nullptr) api.StreamDestroy(stream_);
}

Result<double> TimedStream::Run(const std::function<Status()>& submit, Gate* gate) {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  const bool closed = gate != nullptr && gate->Close(stream_);
  Status status = CudaStatus(api, api.EventRecord(begin_, stream_), "cuEventRecord");
  if (status.ok()) status = submit();
  if (status.ok()) status = CudaStatus(api, api.EventRecord(end_, stream_), "cuEventRecord");
  if (closed) gate->Open();
  const CUresult ended = api.StreamSynchronize(stream_);
  ONECOPY_RETURN_IF_ERROR(status);
  ONECOPY_RETURN_IF_ERROR(CudaStatus(api, ended, "cuStreamSynchronize"));
  float milliseconds = 0;
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.EventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime"));
  return std::max(static_cast<double>(milliseconds) / 1e3, kEventResolutionSeconds);
}

Status TimedStream::WaitFor(TimedStream& other) {
  const shim::CudaApi& api = gpu_->api();
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.EventRecord(other.mark_, other.stream_), "cuEventRecord"));
  return WaitForEvent(api, stream_, other.mark_);
}

}  // namespace onecopy::bench
