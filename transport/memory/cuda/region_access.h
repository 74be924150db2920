// Access to a region of GPU memory for others than this process: network devices (a dma-buf), other
// processes of the host, and readers of what a network device has written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/core/contracts/import_request.h"
#include "transport/core/contracts/region.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::cuda {

inline CUdeviceptr AddressOf(const Region& region) {
  return reinterpret_cast<CUdeviceptr>(region.address());
}

// Each of these gives a new region one way to be reached, before it is shared. The region holds a
// use of the GPU for as long as it lives.

// The dma-buf of memory of cuMemCreate, a client's too, is exported by this process.
void ExportDmaBufOf(Region& region, std::shared_ptr<Gpu> gpu);

// That of memory behind a legacy handle is the client's to export: what it passed, or why it did
// not.
struct KeptDmaBuf {
  os::UniqueFd fd;
  uint64_t offset = 0;
  std::string refusal;
};
// BAD_HANDLE for a descriptor that is not a dma-buf or is too small for the piece. `bytes_of` tells
// its size.
Result<KeptDmaBuf> KeepDmaBuf(const ImportRequest& request,
                              const std::function<Result<uint64_t>(int fd)>& bytes_of);
void LendDmaBufOf(Region& region, KeptDmaBuf dmabuf);

// Of a client's allocations, in their order. Their number is bounded: a buffer holds one of them
// open for each, for as long as it lives.
inline constexpr size_t kMaxKeptAllocations = 64;
using Descriptors = std::vector<os::UniqueFd>;
// Empty where there are more than are kept.
Result<Descriptors> KeepDescriptors(std::span<const ImportRequest::Allocation> allocations);

// Another process maps memory of the daemon's own by a new descriptor, or, where that has none,
// opens a new legacy handle; a client's by the client's original one, or opens the client's
// original handle.
void ShareOwn(Region& region, std::shared_ptr<Gpu> gpu);
void ShareOwnHandle(Region& region, std::shared_ptr<Gpu> gpu);
void ShareDescriptors(Region& region, const ImportRequest& request, Descriptors originals);
void ShareHandle(Region& region, const ImportRequest& request);

// If the GPU does not order remote writes for all readers here.
void FlushIfNeeded(Region& region, std::shared_ptr<Gpu> gpu);

// A descriptor of our own for the same thing.
Result<os::UniqueFd> Duplicate(int fd);

}  // namespace onecopy::cuda
