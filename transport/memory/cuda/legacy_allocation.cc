#include "transport/memory/cuda/legacy_allocation.h"

#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cuda {
namespace {

// The driver cuts smaller allocations out of pieces of this size, and a handle opens the whole
// piece.
constexpr uint64_t kPiece = uint64_t{2} << 20;

}  // namespace

LegacyAllocation::~LegacyAllocation() {
  if (address_ == 0) return;
  const shim::ScopedCudaContext scope(gpu_->api(), gpu_->context());
  gpu_->api().MemFree(address_);
}

LegacyAllocation::LegacyAllocation(LegacyAllocation&& other) noexcept
    : gpu_(std::move(other.gpu_)),
      address_(std::exchange(other.address_, 0)),
      bytes_(other.bytes_) {}

LegacyAllocation& LegacyAllocation::operator=(LegacyAllocation&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<LegacyAllocation> LegacyAllocation::Make(std::shared_ptr<Gpu> gpu, uint64_t bytes) {
  const shim::CudaApi& api = gpu->api();
  LegacyAllocation memory;
  memory.gpu_ = gpu;
  memory.bytes_ = (bytes + kPiece - 1) / kPiece * kPiece;
  const shim::ScopedCudaContext scope(api, gpu->context());
  CUresult error = scope.outcome();
  if (bytes > gpu->info().total_bytes) error = CUDA_ERROR_OUT_OF_MEMORY;
  if (error == CUDA_SUCCESS) error = api.MemAlloc(&memory.address_, memory.bytes_);
  if (error == CUDA_SUCCESS) return memory;
  memory.address_ = 0;
  return gpu->Failure(error, "allocating " + FormatBytes(bytes) + " on " + gpu->ToString(),
                      Code::kFailedPrecondition, reasons::kDriverFailed,
                      "remove a buffer, or ask for less");
}

}  // namespace onecopy::cuda
