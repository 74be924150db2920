#include "bench/ceiling/peer_copy.h"

#include <chrono>

#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<std::unique_ptr<Mover>> PeerCopy::Create(const std::shared_ptr<Gpu>& from,
                                                const std::shared_ptr<Gpu>& to, GpuMemoryKind kind,
                                                uint64_t bytes, unsigned copies) {
  std::unique_ptr<PeerCopy> copy(new PeerCopy(from, to, copies));
  ONECOPY_RETURN_IF_ERROR(copy->Begin(kind, bytes));
  return std::unique_ptr<Mover>(std::move(copy));
}

Status PeerCopy::Begin(GpuMemoryKind kind, uint64_t bytes) {
  const shim::CudaApi& api = from_->api();
  ONECOPY_ASSIGN_OR_RETURN(host_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(source_, GpuMemory::Allocate(from_, kind, bytes));
  ONECOPY_ASSIGN_OR_RETURN(destination_, GpuMemory::Allocate(to_, kind, bytes));
  ONECOPY_RETURN_IF_ERROR(destination_->LetReach(*from_));
  ONECOPY_RETURN_IF_ERROR(source_->LetReach(*to_));
  {
    const shim::ScopedCudaContext scope(api, to_->context());
    ONECOPY_RETURN_IF_ERROR(
        CudaStatus(api, api.StreamCreate(&to_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  }
  const shim::ScopedCudaContext scope(api, from_->context());
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.StreamCreate(&from_stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  const CUresult pinned = api.MemHostRegister(host_.data(), bytes, CU_MEMHOSTREGISTER_PORTABLE);
  pinned_ = pinned == CUDA_SUCCESS;
  return CudaStatus(api, pinned, "pinning host memory");
}

PeerCopy::~PeerCopy() {
  const shim::CudaApi& api = from_->api();
  if (to_stream_ != nullptr) {
    const shim::ScopedCudaContext scope(api, to_->context());
    api.StreamDestroy(to_stream_);
  }
  const shim::ScopedCudaContext scope(api, from_->context());
  if (from_stream_ != nullptr) api.StreamDestroy(from_stream_);
  if (pinned_) api.MemHostUnregister(host_.data());
}

Status PeerCopy::Wait(CUstream stream, CUresult submitted, const char* what) const {
  const shim::CudaApi& api = from_->api();
  ONECOPY_RETURN_IF_ERROR(CudaStatus(api, submitted, what));
  return CudaStatus(api, api.StreamSynchronize(stream), what);
}

Status PeerCopy::Fill(uint64_t seed) {
  FillPayload(host_.data(), host_.bytes(), seed);
  const shim::ScopedCudaContext scope(from_->api(), from_->context());
  return Wait(
      from_stream_,
      from_->api().MemcpyHtoDAsync(source_->address(), host_.data(), host_.bytes(), from_stream_),
      "cuMemcpyHtoDAsync");
}

Result<Moved> PeerCopy::Move() {
  using Clock = std::chrono::steady_clock;
  const shim::ScopedCudaContext scope(from_->api(), from_->context());
  const Clock::time_point begin = Clock::now();
  CUresult submitted = CUDA_SUCCESS;
  for (unsigned i = 0; i < copies_ && submitted == CUDA_SUCCESS; ++i) {
    submitted =
        from_->api().MemcpyPeerAsync(destination_->address(), to_->context(), source_->address(),
                                     from_->context(), host_.bytes(), from_stream_);
  }
  ONECOPY_RETURN_IF_ERROR(Wait(from_stream_, submitted, "cuMemcpyPeerAsync"));
  return Moved{.seconds = std::chrono::duration<double>(Clock::now() - begin).count() / copies_};
}

Result<bool> PeerCopy::Verify(uint64_t seed) {
  FillPayload(host_.data(), host_.bytes(), seed + 1);  // nothing right is left there
  const shim::ScopedCudaContext scope(to_->api(), to_->context());
  ONECOPY_RETURN_IF_ERROR(Wait(
      to_stream_,
      to_->api().MemcpyDtoHAsync(host_.data(), destination_->address(), host_.bytes(), to_stream_),
      "cuMemcpyDtoHAsync"));
  return !FindWrong(host_.data(), host_.bytes(), seed);
}

}  // namespace onecopy::bench
