#include "bench/ceiling/small_peer_copies.h"

#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<std::unique_ptr<Mover>> SmallPeerCopies::Create(const std::shared_ptr<Gpu>& from,
                                                       const std::shared_ptr<Gpu>& to,
                                                       const Many& many) {
  std::unique_ptr<SmallPeerCopies> copies(new SmallPeerCopies(from, to, many));
  ONECOPY_RETURN_IF_ERROR(copies->Begin());
  return std::unique_ptr<Mover>(std::move(copies));
}

Status SmallPeerCopies::Begin() {
  const shim::CudaApi& api = from_->api();
  ONECOPY_ASSIGN_OR_RETURN(host_, os::MapAnonymous(many_.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(source_, GpuMemory::Allocate(from_, GpuMemoryKind::kVmm, many_.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(destination_,
                           GpuMemory::Allocate(to_, GpuMemoryKind::kVmm, many_.bytes()));
  ONECOPY_RETURN_IF_ERROR(destination_->LetReach(*from_));
  const shim::ScopedCudaContext scope(api, from_->context());
  // So that filling and looking, which are not timed, need nothing else of the driver.
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.MemHostRegister(host_.data(), many_.bytes(), CU_MEMHOSTREGISTER_PORTABLE),
                 "pinning host memory"));
  return CudaStatus(api, api.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

SmallPeerCopies::~SmallPeerCopies() {
  const shim::ScopedCudaContext scope(from_->api(), from_->context());
  if (stream_ == nullptr) return;
  from_->api().StreamDestroy(stream_);
  from_->api().MemHostUnregister(host_.data());
}

Status SmallPeerCopies::Copy(uint64_t offset) const {
  return CudaStatus(from_->api(),
                    from_->api().MemcpyPeerAsync(destination_->address() + offset, to_->context(),
                                                 source_->address() + offset, from_->context(),
                                                 many_.piece_bytes, stream_),
                    "cuMemcpyPeerAsync");
}

Status SmallPeerCopies::Wait() const {
  return CudaStatus(from_->api(), from_->api().StreamSynchronize(stream_), "cuStreamSynchronize");
}

Status SmallPeerCopies::Fill(uint64_t seed) {
  const shim::CudaApi& api = from_->api();
  const shim::ScopedCudaContext scope(api, from_->context());
  FillPayload(host_.data(), host_.bytes(), seed);
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(api, api.MemcpyHtoDAsync(source_->address(), host_.data(), host_.bytes(), stream_),
                 "cuMemcpyHtoDAsync"));
  return Wait();
}

Result<Moved> SmallPeerCopies::Move() {
  const shim::ScopedCudaContext scope(from_->api(), from_->context());
  if (many_.depth == 1) {
    return OneByOne(many_, [this](uint64_t offset) -> Status {
      ONECOPY_RETURN_IF_ERROR(Copy(offset));
      return Wait();
    });
  }
  return AllAtOnce(many_, [this]() -> Status {
    for (unsigned i = 0; i < many_.count; ++i) {
      ONECOPY_RETURN_IF_ERROR(Copy(many_.OffsetOf(i)));
      if ((i + 1) % many_.depth == 0) ONECOPY_RETURN_IF_ERROR(Wait());
    }
    return Wait();
  });
}

Result<bool> SmallPeerCopies::Verify(uint64_t seed) {
  const shim::CudaApi& api = from_->api();
  const shim::ScopedCudaContext scope(api, from_->context());
  FillPayload(host_.data(), host_.bytes(), seed + 1);  // nothing right is left there
  ONECOPY_RETURN_IF_ERROR(CudaStatus(
      api, api.MemcpyDtoHAsync(host_.data(), destination_->address(), host_.bytes(), stream_),
      "cuMemcpyDtoHAsync"));
  ONECOPY_RETURN_IF_ERROR(Wait());
  return !FindWrong(host_.data(), host_.bytes(), seed);
}

}  // namespace onecopy::bench
