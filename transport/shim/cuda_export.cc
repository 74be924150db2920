#include "transport/shim/cuda_export.h"

#include <fcntl.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/contracts/import_request.h"

namespace onecopy::shim {
namespace {

constexpr char kUseInstead[] =
    "allocate it with cudaMalloc, or with cuMemCreate and "
    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or let the daemon allocate it (buffer create)";

Status NotShareable(const std::string& what, const std::string& remedy = kUseInstead) {
  return {Code::kFailedPrecondition, reasons::kNotShareable,
          "this memory cannot be shared with another process: " + what, remedy};
}

// What the driver knows about a pointer; all zero for one that it does not know.
struct Facts {
  CUcontext context = nullptr;
  unsigned memory_type = 0;  // CUmemorytype
  unsigned managed = 0;
  int device = -1;
  unsigned legacy_ipc = 0;
  unsigned long long handle_types = 0;
  CUmemoryPool pool = nullptr;
  unsigned long long buffer_id = 0;

  bool known() const { return memory_type != 0; }
};

Result<Facts> Query(const CudaApi& api, CUdeviceptr pointer) {
  Facts facts;
  std::array attributes = {
      CU_POINTER_ATTRIBUTE_CONTEXT,
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
      CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
      CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
      CU_POINTER_ATTRIBUTE_BUFFER_ID,
  };
  std::array<void*, attributes.size()> values = {
      &facts.context,    &facts.memory_type,  &facts.managed, &facts.device,
      &facts.legacy_ipc, &facts.handle_types, &facts.pool,    &facts.buffer_id,
  };
  const CUresult error =
      api.PointerGetAttributes(attributes.size(), attributes.data(), values.data(), pointer);
  // So it answers for plain host memory while the process has no context at all.
  if (error == CUDA_ERROR_INVALID_CONTEXT || error == CUDA_ERROR_INVALID_VALUE) return Facts();
  if (error != CUDA_SUCCESS) {
    return NotShareable("asking the driver for its kind failed with " + CudaErrorText(api, error));
  }
  return facts;
}

// Holds a device's primary context, and makes it current for a scope.
class PrimaryContext {
 public:
  PrimaryContext(const CudaApi& api, CUdevice device)
      : context_(api, device), outcome_(context_.outcome()) {
    if (outcome_ != CUDA_SUCCESS) return;
    outcome_ = scope_.emplace(api, context_.get()).outcome();
  }

  CUresult outcome() const { return outcome_; }

 private:
  const PrimaryCudaContext context_;
  CUresult outcome_;
  std::optional<ScopedCudaContext> scope_;
};

// The same, for a thread whose current context (none, or another GPU's) does not let the driver see
// the pointer: with the contexts that this process has open, one after the other.
Result<Facts> QueryAnywhere(const CudaApi& api, CUdeviceptr pointer) {
  ONECOPY_ASSIGN_OR_RETURN(Facts facts, Query(api, pointer));
  int count = 0;
  if (facts.known() || api.DeviceGetCount(&count) != CUDA_SUCCESS) return facts;
  for (int ordinal = 0; ordinal < count && !facts.known(); ++ordinal) {
    CUdevice device = 0;
    unsigned flags = 0;
    int active = 0;
    if (api.DeviceGet(&device, ordinal) != CUDA_SUCCESS) continue;
    if (api.DevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS) continue;
    if (active == 0) continue;
    const PrimaryContext context(api, device);
    if (context.outcome() != CUDA_SUCCESS) continue;
    ONECOPY_ASSIGN_OR_RETURN(facts, Query(api, pointer));
  }
  return facts;
}

// The allocation that a pointer lies in, or the mapping of one (cuMemMap).
struct Allocation {
  CUdeviceptr start = 0;
  size_t bytes = 0;
  uint64_t id = 0;

  CUdeviceptr end() const { return start + bytes; }
};

// Neighbours, of which only those of cuMemCreate have more than one.
using Allocations = std::vector<Allocation>;

// One for all of their numbers; nothing else depends on how it is made.
uint64_t IdOf(const Allocations& allocations) {
  uint64_t id = allocations.front().id;
  for (size_t i = 1; i < allocations.size(); ++i) {
    id = (id ^ (id >> 29)) * 0xbf58476d1ce4e5b9U + allocations[i].id;
  }
  return id;
}

Status ExportIpc(const CudaApi& api, const Allocation& allocation, CudaExport& result) {
  CUipcMemHandle handle{};
  const CUresult error = api.IpcGetMemHandle(&handle, allocation.start);
  if (error != CUDA_SUCCESS) {
    return NotShareable("cuIpcGetMemHandle: " + CudaErrorText(api, error));
  }
  result.form = "cuda-ipc";
  result.handle.assign(handle.reserved, sizeof handle.reserved);
  return OkStatus();
}

Result<os::UniqueFd> ExportVmm(const CudaApi& api, CUdeviceptr pointer) {
  CUmemGenericAllocationHandle handle = 0;
  CUresult error = api.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(pointer));
  if (error != CUDA_SUCCESS) {
    return NotShareable("cuMemRetainAllocationHandle: " + CudaErrorText(api, error));
  }
  int fd = -1;
  error = api.MemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  api.MemRelease(handle);
  if (error != CUDA_SUCCESS) {
    return NotShareable("cuMemExportToShareableHandle: " + CudaErrorText(api, error));
  }
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return os::UniqueFd(fd);
}

enum class Managed { kNot, kToo };

// What can be told from a pointer's attributes alone: whether it is memory of one GPU …
Status CheckOnGpu(const Facts& facts, Managed managed = Managed::kNot) {
  if (!facts.known()) {
    return NotShareable("it is ordinary host memory, unknown to the CUDA driver",
                        "use a shared host buffer (a sealed memfd), or pass a device pointer");
  }
  if (facts.managed != 0) {
    if (managed == Managed::kToo) return OkStatus();
    return NotShareable("it is managed memory (cudaMallocManaged)");
  }
  if (facts.memory_type == CU_MEMORYTYPE_HOST) {
    return NotShareable("it is pinned host memory (cudaHostAlloc or cudaHostRegister)",
                        "use a shared host buffer (a sealed memfd); the daemon pins it");
  }
  if (facts.memory_type != CU_MEMORYTYPE_DEVICE) {
    return NotShareable("it is neither host nor plain device memory");
  }
  return OkStatus();
}

// … and whether another process can map it.
Status CheckMappable(const Facts& facts) {
  if (facts.pool != nullptr) {
    return NotShareable("it comes from a memory pool (cudaMallocAsync)");
  }
  if (facts.legacy_ipc != 0) return OkStatus();
  if ((facts.handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
    return NotShareable(
        "it was made without CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or belongs to another "
        "process");
  }
  return OkStatus();
}

// Where a pointer's memory lies, and a context in which the driver answers about it.
class Place {
 public:
  Place(const CudaApi& api, CUdeviceptr pointer) : api_(api), pointer_(pointer) {}

  const Facts& facts() const { return facts_; }
  CUdevice device() const { return device_; }

  // Before everything else. Refuses what is not memory of a GPU.
  Status Find(uint64_t bytes, Managed managed = Managed::kNot) {
    if (bytes == 0) {
      return {Code::kInvalidArgument, reasons::kBadSize, "a range of no bytes",
              "pass at least 1 byte"};
    }
    ONECOPY_ASSIGN_OR_RETURN(facts_, QueryAnywhere(api_, pointer_));
    ONECOPY_RETURN_IF_ERROR(CheckOnGpu(facts_, managed));
    const CUresult error = api_.DeviceGet(&device_, facts_.device);
    if (error != CUDA_SUCCESS) return NotShareable("cuDeviceGet: " + CudaErrorText(api_, error));
    return OkStatus();
  }

  // The pointer's own context; that of its GPU for memory without one (cuMemCreate), which every
  // process that uses the GPU through the CUDA runtime has open anyway.
  Status Enter() {
    const CUresult error = facts_.context != nullptr ? own_.emplace(api_, facts_.context).outcome()
                                                     : primary_.emplace(api_, device_).outcome();
    if (error == CUDA_SUCCESS) return OkStatus();
    return NotShareable("cannot enter its context: " + CudaErrorText(api_, error));
  }

  // After Enter. Those that the range lies in; refuses one that is not inside them.
  Result<Allocations> FindAllocations(uint64_t bytes) {
    Allocations all;
    ONECOPY_ASSIGN_OR_RETURN(const Allocation first, AllocationAt(pointer_, facts_));
    all.push_back(first);
    const bool mapped = facts_.legacy_ipc == 0 && facts_.pool == nullptr;
    while (bytes > all.back().end() - pointer_) {
      const Facts next = mapped ? Behind(all.back()) : Facts();
      if (!next.known()) return Beyond(bytes, all);
      if (all.size() == kMaxAllocations) {
        return NotShareable("it lies in more than " + std::to_string(kMaxAllocations) +
                                " allocations of cuMemCreate",
                            "register it in pieces, or allocate it in fewer");
      }
      ONECOPY_ASSIGN_OR_RETURN(const Allocation behind, AllocationAt(all.back().end(), next));
      all.push_back(behind);
    }
    return all;
  }

 private:
  Result<Allocation> AllocationAt(CUdeviceptr pointer, const Facts& facts) {
    Allocation allocation;
    const CUresult error = api_.MemGetAddressRange(&allocation.start, &allocation.bytes, pointer);
    if (error != CUDA_SUCCESS) {
      return NotShareable("cuMemGetAddressRange: " + CudaErrorText(api_, error));
    }
    allocation.id = facts.buffer_id;
    return allocation;
  }

  // What begins where an allocation ends, if another process can map it in the same way; else
  // nothing.
  Facts Behind(const Allocation& last) {
    const Result<Facts> next = Query(api_, last.end());
    if (!next.ok() || next->device != facts_.device || next->legacy_ipc != 0) return {};
    return CheckOnGpu(*next).ok() && CheckMappable(*next).ok() ? *next : Facts();
  }

  Status Beyond(uint64_t bytes, const Allocations& all) {
    const uint64_t left = all.back().end() - pointer_;
    const std::string ends = FormatBytes(bytes) + " do not fit into its allocation, which has " +
                             FormatBytes(left) + " from there on";
    if (bytes - 1 <= ~pointer_) {
      ONECOPY_ASSIGN_OR_RETURN(const Facts last, Query(api_, pointer_ + (bytes - 1)));
      if (last.known()) {
        return NotShareable("the range spans several allocations: " + ends,
                            "register each allocation as its own buffer");
      }
    }
    return {Code::kOutOfRange, reasons::kRangeOutOfBuffer, ends};
  }

  const CudaApi& api_;
  const CUdeviceptr pointer_;
  Facts facts_;
  CUdevice device_ = 0;
  std::optional<ScopedCudaContext> own_;
  std::optional<PrimaryContext> primary_;
};

}  // namespace

Result<CudaAllocation> FindCudaAllocation(const CudaApi& api, uintptr_t device_pointer,
                                          uint64_t bytes) {
  Place place(api, device_pointer);
  ONECOPY_RETURN_IF_ERROR(place.Find(bytes));
  ONECOPY_RETURN_IF_ERROR(CheckMappable(place.facts()));
  if (place.facts().buffer_id == 0) return NotShareable("the driver has no number for it");
  ONECOPY_RETURN_IF_ERROR(place.Enter());
  ONECOPY_ASSIGN_OR_RETURN(const Allocations all, place.FindAllocations(bytes));
  const CUdeviceptr start = all.front().start;
  return CudaAllocation{start, all.back().end() - start, IdOf(all)};
}

Result<CudaExport> ExportCuda(uintptr_t device_pointer, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaApi> api, LoadCuda());
  return ExportCuda(*api, device_pointer, bytes);
}

Result<CudaExport> ExportCuda(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes,
                              DmaBufs dma_bufs) {
  Place place(api, device_pointer);
  ONECOPY_RETURN_IF_ERROR(place.Find(bytes));
  ONECOPY_RETURN_IF_ERROR(CheckMappable(place.facts()));
  ONECOPY_ASSIGN_OR_RETURN(const CudaUuid uuid, ReadCudaUuid(api, place.device()));
  if (uuid.mig) {
    return NotShareable("it lies on the MIG instance " + uuid.text +
                            ", and MIG does not support sharing CUDA memory between processes",
                        "use a GPU that is not in MIG mode");
  }
  ONECOPY_RETURN_IF_ERROR(place.Enter());
  ONECOPY_ASSIGN_OR_RETURN(const Allocations all, place.FindAllocations(bytes));
  const Allocation& allocation = all.front();

  CudaExport result;
  result.device_uuid = uuid.text;
  result.offset = device_pointer - allocation.start;
  result.allocation_bytes = allocation.bytes;
  if (place.facts().legacy_ipc == 0) {
    result.form = "cuda-vmm";
    ONECOPY_ASSIGN_OR_RETURN(result.fd, ExportVmm(api, device_pointer));
    for (size_t i = 1; i < all.size(); ++i) {
      ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, ExportVmm(api, all[i].start));
      result.more.push_back({std::move(fd), all[i].bytes});
    }
    return result;
  }
  ONECOPY_RETURN_IF_ERROR(ExportIpc(api, allocation, result));
  if (dma_bufs == DmaBufs::kLeave) {
    result.dmabuf_refusal = "the node had no network device that accepts dma-bufs";
    return result;
  }
  Result<CudaDmaBuf> dmabuf = ExportDmaBuf(api, place.device(), device_pointer, bytes);
  if (dmabuf.ok()) {
    result.dmabuf = std::move(*dmabuf);
  } else {
    result.dmabuf_refusal = dmabuf.status().message();
  }
  return result;
}

Result<CudaOwn> FindOwnCuda(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes) {
  Place place(api, device_pointer);
  ONECOPY_RETURN_IF_ERROR(place.Find(bytes, Managed::kToo));
  ONECOPY_RETURN_IF_ERROR(place.Enter());
  ONECOPY_RETURN_IF_ERROR(place.FindAllocations(bytes).status());
  return CudaOwn{place.device(), place.facts().context, place.facts().buffer_id};
}

bool IsStill(const CudaApi& api, uintptr_t device_pointer, uint64_t id) {
  unsigned long long now = 0;
  return api.PointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_BUFFER_ID, device_pointer) ==
             CUDA_SUCCESS &&
         now == id;
}

Result<CudaDmaBuf> ExportCudaDmaBuf(uintptr_t device_pointer, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaApi> api, LoadCuda());
  return ExportCudaDmaBuf(*api, device_pointer, bytes);
}

Result<CudaDmaBuf> ExportCudaDmaBuf(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes) {
  Place place(api, device_pointer);
  ONECOPY_RETURN_IF_ERROR(place.Find(bytes));
  ONECOPY_RETURN_IF_ERROR(place.Enter());
  // Bytes beyond the allocation may belong to another one, which must not be exported.
  ONECOPY_RETURN_IF_ERROR(place.FindAllocations(bytes).status());
  return ExportDmaBuf(api, place.device(), device_pointer, bytes);
}

}  // namespace onecopy::shim
