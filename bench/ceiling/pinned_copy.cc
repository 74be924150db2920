#include "bench/ceiling/pinned_copy.h"

#include <chrono>

#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<std::unique_ptr<Mover>> PinnedCopy::Create(const std::shared_ptr<Gpu>& from,
                                                  const std::shared_ptr<Gpu>& to, PinnedWay way,
                                                  uint64_t bytes, unsigned copies) {
  std::unique_ptr<PinnedCopy> copy(new PinnedCopy(copies));
  if (way != PinnedWay::kFromHost) {
    copy->to_host_ = std::make_unique<Half>(from);
    ONECOPY_RETURN_IF_ERROR(copy->to_host_->Begin(bytes));
  }
  if (way != PinnedWay::kToHost) {
    copy->from_host_ = std::make_unique<Half>(to);
    ONECOPY_RETURN_IF_ERROR(copy->from_host_->Begin(bytes));
  }
  return std::unique_ptr<Mover>(std::move(copy));
}

PinnedCopy::~PinnedCopy() = default;

Status PinnedCopy::Half::Begin(uint64_t bytes) {
  const shim::CudaApi& api = gpu->api();
  ONECOPY_ASSIGN_OR_RETURN(host, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(memory, GpuMemory::Allocate(gpu, GpuMemoryKind::kVmm, bytes));
  const shim::ScopedCudaContext scope(api, gpu->context());
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  const CUresult error = api.MemHostRegister(host.data(), bytes, CU_MEMHOSTREGISTER_PORTABLE);
  pinned = error == CUDA_SUCCESS;
  return CudaStatus(api, error, "pinning host memory");
}

PinnedCopy::Half::~Half() {
  const shim::CudaApi& api = gpu->api();
  const shim::ScopedCudaContext scope(api, gpu->context());
  if (stream != nullptr) {
    api.StreamSynchronize(stream);  // where a move broke off, a copy may be under way
    api.StreamDestroy(stream);
  }
  if (pinned) api.MemHostUnregister(host.data());
}

Status PinnedCopy::Half::Submit(bool to_host) const {
  const shim::CudaApi& api = gpu->api();
  const shim::ScopedCudaContext scope(api, gpu->context());
  if (to_host) {
    return CudaStatus(api,
                      api.MemcpyDtoHAsync(host.data(), memory->address(), host.bytes(), stream),
                      "cuMemcpyDtoHAsync");
  }
  return CudaStatus(api, api.MemcpyHtoDAsync(memory->address(), host.data(), host.bytes(), stream),
                    "cuMemcpyHtoDAsync");
}

Status PinnedCopy::Half::Wait() const {
  const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
  return CudaStatus(gpu->api(), gpu->api().StreamSynchronize(stream), "cuStreamSynchronize");
}

Status PinnedCopy::Fill(uint64_t seed) {
  if (from_host_) FillPayload(from_host_->host.data(), from_host_->host.bytes(), seed);
  if (!to_host_) return OkStatus();
  const os::Mapping& host = to_host_->host;
  FillPayload(host.data(), host.bytes(), seed);
  ONECOPY_RETURN_IF_ERROR(to_host_->Submit(false));
  ONECOPY_RETURN_IF_ERROR(to_host_->Wait());
  FillPayload(host.data(), host.bytes(), seed + 1);  // nothing right is left there
  return OkStatus();
}

Result<Moved> PinnedCopy::Move() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (unsigned i = 0; i < copies_; ++i) {
    if (to_host_) ONECOPY_RETURN_IF_ERROR(to_host_->Submit(true));
    if (from_host_) ONECOPY_RETURN_IF_ERROR(from_host_->Submit(false));
  }
  if (to_host_) ONECOPY_RETURN_IF_ERROR(to_host_->Wait());
  if (from_host_) ONECOPY_RETURN_IF_ERROR(from_host_->Wait());
  return Moved{.seconds = std::chrono::duration<double>(Clock::now() - begin).count() / copies_};
}

Result<bool> PinnedCopy::Verify(uint64_t seed) {
  bool right = true;
  if (to_host_) right = !FindWrong(to_host_->host.data(), to_host_->host.bytes(), seed);
  if (!from_host_) return right;
  const os::Mapping& host = from_host_->host;
  FillPayload(host.data(), host.bytes(), seed + 1);
  ONECOPY_RETURN_IF_ERROR(from_host_->Submit(true));
  ONECOPY_RETURN_IF_ERROR(from_host_->Wait());
  const bool arrived = !FindWrong(host.data(), host.bytes(), seed);
  if (!arrived) FillPayload(host.data(), host.bytes(), seed);  // it is what is moved, too
  return right && arrived;
}

}  // namespace onecopy::bench
