#include "transport/memory/cuda/region_access.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::cuda {
namespace {

Status NotShareable(std::string why, std::string remedy = {}) {
  return {Code::kFailedPrecondition, reasons::kNotShareable,
          "this GPU memory cannot be shared with another process: " + std::move(why),
          std::move(remedy)};
}

// See ImportRequest::owner_only.
std::string OpensMore(const ImportRequest& piece, uint64_t allocation_bytes) {
  if (piece.offset == 0 && piece.bytes == allocation_bytes) return {};
  return "it is a piece of GPU memory that was allocated as " + FormatBytes(allocation_bytes) +
         ", and a mapping would open all of it";
}

// What the other process needs; how network devices reach the memory is this daemon's affair.
ImportRequest AsShared(ImportRequest request) {
  request.fd = -1;
  request.dmabuf_fd = -1;
  request.dmabuf_offset = 0;
  request.dmabuf_refusal.clear();
  return request;
}

}  // namespace

Result<os::UniqueFd> Duplicate(int fd) {
  os::UniqueFd copy = os::UniqueFd::DuplicateOf(fd);
  if (copy) return copy;
  if (errno == EBADF) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle, "the descriptor is not open");
  }
  return os::ErrnoStatus(errno, "duplicating a descriptor");
}

void ExportDmaBufOf(Region& region, std::shared_ptr<Gpu> gpu) {
  region.SetDmaBufExporter([gpu = std::move(gpu), address = AddressOf(region),
                            bytes = region.bytes()]() -> Result<DmaBuf> {
    ONECOPY_RETURN_IF_ERROR(gpu->lost());
    const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
    ONECOPY_ASSIGN_OR_RETURN(shim::CudaDmaBuf exported,
                             shim::ExportDmaBuf(gpu->api(), gpu->info().device, address, bytes));
    return DmaBuf{exported.fd.Release(), exported.offset, address};
  });
}

Result<KeptDmaBuf> KeepDmaBuf(const ImportRequest& request,
                              const std::function<Result<uint64_t>(int fd)>& bytes_of) {
  if (request.dmabuf_fd < 0) return KeptDmaBuf{{}, 0, request.dmabuf_refusal};
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes, bytes_of(request.dmabuf_fd));
  if (request.dmabuf_offset > bytes || request.bytes > bytes - request.dmabuf_offset) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "a dma-buf of " + FormatBytes(bytes) + " cannot hold " +
                      FormatBytes(request.bytes) + " from byte " +
                      std::to_string(request.dmabuf_offset) + " on",
                  "pass the dma-buf of this same memory, and the memory's offset in it");
  }
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd kept, Duplicate(request.dmabuf_fd));
  return KeptDmaBuf{std::move(kept), request.dmabuf_offset, {}};
}

void LendDmaBufOf(Region& region, KeptDmaBuf dmabuf) {
  region.SetDmaBufExporter(
      [dmabuf = std::move(dmabuf), address = AddressOf(region)]() -> Result<DmaBuf> {
        if (!dmabuf.fd) {
          return Status(Code::kFailedPrecondition, reasons::kGpuNotPinnable,
                        "only the process that allocated memory of cudaMalloc can export it as a "
                        "dma-buf, and that process passed none" +
                            (dmabuf.refusal.empty() ? "" : ": " + dmabuf.refusal),
                        "use a newer client library, or memory of cuMemCreate or of the daemon");
        }
        ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd copy, Duplicate(dmabuf.fd.get()));
        return DmaBuf{copy.Release(), dmabuf.offset, address};
      });
}

void ShareOwn(Region& region, std::shared_ptr<Gpu> gpu) {
  region.SetSharer([gpu = std::move(gpu), address = AddressOf(region), bytes = region.bytes(),
                    device = region.place().device]() -> Result<ImportRequest> {
    ONECOPY_RETURN_IF_ERROR(gpu->lost());
    const shim::CudaApi& api = gpu->api();
    const shim::ScopedCudaContext scope(api, gpu->context());
    CUdeviceptr start = 0;
    size_t allocation_bytes = 0;
    CUresult error = api.MemGetAddressRange(&start, &allocation_bytes, address);
    CUmemGenericAllocationHandle handle = 0;
    if (error == CUDA_SUCCESS) {
      error = api.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address));
    }
    if (error != CUDA_SUCCESS) return NotShareable(shim::CudaErrorText(api, error));
    int fd = -1;
    error =
        api.MemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    api.MemRelease(handle);
    if (error != CUDA_SUCCESS) {
      return NotShareable("cuMemExportToShareableHandle: " + shim::CudaErrorText(api, error));
    }
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ImportRequest shared;
    shared.form = "cuda-vmm";
    shared.device = device;
    shared.bytes = bytes;
    shared.offset = address - start;
    shared.allocation_bytes = allocation_bytes;
    shared.fd = fd;
    return shared;
  });
}

void ShareOwnHandle(Region& region, std::shared_ptr<Gpu> gpu) {
  region.SetSharer([gpu = std::move(gpu), address = AddressOf(region), bytes = region.bytes(),
                    device = region.place().device]() -> Result<ImportRequest> {
    ONECOPY_RETURN_IF_ERROR(gpu->lost());
    const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
    CUipcMemHandle handle{};
    CUresult error = scope.outcome();
    if (error == CUDA_SUCCESS) error = gpu->api().IpcGetMemHandle(&handle, address);
    if (error != CUDA_SUCCESS) {
      return NotShareable("cuIpcGetMemHandle: " + shim::CudaErrorText(gpu->api(), error));
    }
    ImportRequest shared;
    shared.form = "cuda-ipc";
    shared.device = device;
    shared.bytes = bytes;
    shared.handle.assign(handle.reserved, sizeof handle.reserved);
    return shared;
  });
}

Result<Descriptors> KeepDescriptors(std::span<const ImportRequest::Allocation> allocations) {
  Descriptors kept;
  if (allocations.size() > kMaxKeptAllocations) return kept;
  for (const ImportRequest::Allocation& one : allocations) {
    ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd copy, Duplicate(one.fd));
    kept.push_back(std::move(copy));
  }
  return kept;
}

void ShareDescriptors(Region& region, const ImportRequest& request, Descriptors originals) {
  ImportRequest shared = AsShared(request);
  uint64_t all = request.allocation_bytes;
  for (ImportRequest::Allocation& one : shared.more) {
    all += one.bytes;
    one.fd = -1;
  }
  shared.owner_only = OpensMore(request, all);
  region.SetSharer(
      [shared = std::move(shared), originals = std::move(originals)]() -> Result<ImportRequest> {
        if (originals.empty()) {
          return NotShareable("it lies in " + std::to_string(shared.more.size() + 1) +
                                  " allocations, and can be shared in at most " +
                                  std::to_string(kMaxKeptAllocations),
                              "allocate it in fewer pieces, or register pieces of it");
        }
        Descriptors copies;
        for (const os::UniqueFd& original : originals) {
          ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd copy, Duplicate(original.get()));
          copies.push_back(std::move(copy));
        }
        ImportRequest with_fds = shared;
        with_fds.fd = copies.front().Release();
        for (size_t i = 1; i < copies.size(); ++i) with_fds.more[i - 1].fd = copies[i].Release();
        return with_fds;
      });
}

void ShareHandle(Region& region, const ImportRequest& request) {
  ImportRequest shared = AsShared(request);
  shared.owner_only =
      "its client may free memory of cudaMalloc at any time, even while it is mapped (use memory "
      "of cuMemCreate, or of the daemon)";
  region.SetSharer([shared = std::move(shared)]() -> Result<ImportRequest> { return shared; });
}

void FlushIfNeeded(Region& region, std::shared_ptr<Gpu> gpu) {
  const GpuInfo& info = gpu->info();
  if (info.writes_ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES) return;
  const bool owner_sees = info.writes_ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  // The reader is not known here: another GPU may read, wherever it can. A GPU that cannot
  // flush for the others offers no more than its own order.
  if (owner_sees && (info.direct_peers.empty() || !info.flushes)) return;
  region.SetFlush([gpu = std::move(gpu)]() -> Status {
    const std::string what = "making remote writes visible on " + gpu->ToString();
    ONECOPY_RETURN_IF_ERROR(gpu->lost());
    if (!gpu->info().flushes) {
      return {Code::kFailedPrecondition, reasons::kGpuNotPinnable,
              what + ": the driver cannot do it, and the GPU does not order them by itself",
              "receive into host memory, or use a staged path: --path rdma-bounce"};
    }
    const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
    CUresult error = scope.outcome();
    if (error == CUDA_SUCCESS) {
      error =
          gpu->api().FlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
    }
    return error == CUDA_SUCCESS ? OkStatus() : gpu->WorkFailure(error, what);
  });
}

}  // namespace onecopy::cuda
