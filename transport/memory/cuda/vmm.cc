#include "transport/memory/cuda/vmm.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cuda {
namespace {

CUmemAccessDesc ReadWriteBy(int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

CUmemAllocationProp Properties(const GpuInfo& gpu) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu.driver_ordinal;
  properties.requestedHandleTypes =
      gpu.posix_fd_handles ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties.allocFlags.gpuDirectRDMACapable = gpu.gpu_direct_rdma ? 1 : 0;
  return properties;
}

// Keeps an allocation handle for a scope; a mapping outlives it.
class Handle {
 public:
  explicit Handle(const shim::CudaApi& api) : api_(api) {}
  ~Handle() {
    if (held) api_.MemRelease(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CUmemGenericAllocationHandle value = 0;
  bool held = false;

 private:
  const shim::CudaApi& api_;
};

Result<uint64_t> Granularity(Gpu& gpu, const CUmemAllocationProp& properties) {
  size_t granularity = 0;
  const CUresult error = gpu.api().MemGetAllocationGranularity(&granularity, &properties,
                                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (error != CUDA_SUCCESS) {
    return gpu.Failure(error, "cuMemGetAllocationGranularity on " + gpu.ToString(),
                       Code::kFailedPrecondition, reasons::kDriverFailed);
  }
  return static_cast<uint64_t>(granularity);
}

Status NoMemory(Gpu& gpu, uint64_t bytes) {
  std::string text = FormatBytes(bytes) + " do not fit on " + gpu.ToString();
  size_t free = 0;
  size_t total = 0;
  const shim::ScopedCudaContext scope(gpu.api(), gpu.context());
  if (gpu.api().MemGetInfo(&free, &total) == CUDA_SUCCESS) {
    text += ": " + FormatBytes(free) + " of " + FormatBytes(total) + " are free";
  }
  return {Code::kResourceExhausted, reasons::kNoMemory, text, "remove a buffer, or ask for less"};
}

Status BadDescriptor(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle, why,
          "pass the descriptor of cuMemExportToShareableHandle"};
}

// A client's allocation, as its descriptor gives it.
struct Opened {
  std::unique_ptr<Handle> handle;
  uint64_t granularity = 0;
};

Result<Opened> Open(Gpu& gpu, const ImportRequest::Allocation& allocation) {
  const shim::CudaApi& api = gpu.api();
  auto handle = std::make_unique<Handle>(api);
  CUresult error = api.MemImportFromShareableHandle(
      &handle->value, reinterpret_cast<void*>(static_cast<uintptr_t>(allocation.fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  handle->held = error == CUDA_SUCCESS;
  CUmemAllocationProp properties{};
  if (error == CUDA_SUCCESS) {
    error = api.MemGetAllocationPropertiesFromHandle(&properties, handle->value);
  }
  if (error != CUDA_SUCCESS) {
    return gpu.Failure(error, "the passed descriptor is not importable GPU memory",
                       Code::kInvalidArgument, reasons::kBadHandle,
                       "pass the descriptor of cuMemExportToShareableHandle");
  }
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      properties.location.id != gpu.info().driver_ordinal) {
    return BadDescriptor("the passed memory does not lie on " + gpu.ToString() +
                         " but on the driver's device " + std::to_string(properties.location.id));
  }
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t granularity, Granularity(gpu, properties));
  if (allocation.bytes == 0 || allocation.bytes % granularity != 0 ||
      allocation.bytes > gpu.info().total_bytes) {
    return BadDescriptor(std::to_string(allocation.bytes) +
                         " bytes cannot be the size of the allocation: sizes " +
                         "are multiples of " + FormatBytes(granularity));
  }
  return Opened{std::move(handle), granularity};
}

}  // namespace

void VmmMappings::Add(CUdeviceptr address, uint64_t bytes, int device, bool imported) {
  const MutexLock lock(mutex_);
  mappings_[address] = Mapping{bytes, imported, {device}};
}

void VmmMappings::Remove(CUdeviceptr address) {
  const MutexLock lock(mutex_);
  mappings_.erase(address);
}

std::map<CUdeviceptr, VmmMappings::Mapping>::const_iterator VmmMappings::Find(
    CUdeviceptr address) const {
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto mapping = std::prev(after);
  return address - mapping->first < mapping->second.bytes ? mapping : mappings_.end();
}

bool VmmMappings::Contains(CUdeviceptr address) const {
  const MutexLock lock(mutex_);
  return Find(address) != mappings_.end();
}

bool VmmMappings::IsImported(CUdeviceptr address) const {
  const MutexLock lock(mutex_);
  const auto mapping = Find(address);
  return mapping != mappings_.end() && mapping->second.imported;
}

CUresult VmmMappings::LetReach(const Gpu& gpu, CUdeviceptr address) {
  const MutexLock lock(mutex_);
  const auto mapping = Find(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_NOT_FOUND;
  const int device = gpu.info().driver_ordinal;
  if (mapping->second.reached_by.contains(device)) return CUDA_SUCCESS;
  const CUmemAccessDesc access = ReadWriteBy(device);
  const CUresult error = gpu.api().MemSetAccess(mapping->first, mapping->second.bytes, &access, 1);
  if (error == CUDA_SUCCESS) mappings_.at(mapping->first).reached_by.insert(device);
  return error;
}

VmmMapping::~VmmMapping() {
  if (bytes_ == 0) return;
  const shim::CudaApi& api = gpu_->api();
  all_->Remove(address_);
  CUdeviceptr mapped = address_;
  for (const uint64_t bytes : mapped_) {
    api.MemUnmap(mapped, bytes);
    mapped += bytes;
  }
  api.MemAddressFree(address_, bytes_);
}

VmmMapping::VmmMapping(VmmMapping&& other) noexcept
    : gpu_(std::move(other.gpu_)),
      all_(std::move(other.all_)),
      address_(other.address_),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::move(other.mapped_)) {}

VmmMapping& VmmMapping::operator=(VmmMapping&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(all_, other.all_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

CUresult VmmMapping::Reserve(uint64_t bytes, uint64_t granularity) {
  const CUresult error = gpu_->api().MemAddressReserve(&address_, bytes, granularity, 0, 0);
  if (error == CUDA_SUCCESS) bytes_ = bytes;
  return error;
}

CUresult VmmMapping::Append(CUmemGenericAllocationHandle handle, uint64_t bytes) {
  const uint64_t behind = std::accumulate(mapped_.begin(), mapped_.end(), uint64_t{0});
  const CUresult error = gpu_->api().MemMap(address_ + behind, bytes, 0, handle, 0);
  if (error == CUDA_SUCCESS) mapped_.push_back(bytes);
  return error;
}

CUresult VmmMapping::LetReach(bool imported) {
  all_->Add(address_, bytes_, gpu_->info().driver_ordinal, imported);
  const CUmemAccessDesc access = ReadWriteBy(gpu_->info().driver_ordinal);
  return gpu_->api().MemSetAccess(address_, bytes_, &access, 1);
}

Result<VmmMapping> VmmMapping::Create(std::shared_ptr<Gpu> gpu, std::shared_ptr<VmmMappings> all,
                                      uint64_t bytes) {
  const CUmemAllocationProp properties = Properties(gpu->info());
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t granularity, Granularity(*gpu, properties));
  if (bytes > gpu->info().total_bytes) return NoMemory(*gpu, bytes);
  const uint64_t rounded = (bytes + granularity - 1) / granularity * granularity;
  Handle handle(gpu->api());
  CUresult error = gpu->api().MemCreate(&handle.value, rounded, &properties, 0);
  handle.held = error == CUDA_SUCCESS;
  VmmMapping mapping(gpu, std::move(all));
  if (error == CUDA_SUCCESS) error = mapping.Reserve(rounded, granularity);
  if (error == CUDA_SUCCESS) error = mapping.Append(handle.value, rounded);
  if (error == CUDA_SUCCESS) error = mapping.LetReach(false);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return NoMemory(*gpu, bytes);
  if (error != CUDA_SUCCESS) {
    return gpu->Failure(error, "allocating " + FormatBytes(bytes) + " on " + gpu->ToString(),
                        Code::kFailedPrecondition, reasons::kDriverFailed);
  }
  return mapping;
}

Result<VmmMapping> VmmMapping::Import(std::shared_ptr<Gpu> gpu, std::shared_ptr<VmmMappings> all,
                                      std::span<const ImportRequest::Allocation> allocations) {
  std::vector<Opened> opened;
  uint64_t granularity = 0;
  uint64_t bytes = 0;
  for (const ImportRequest::Allocation& one : allocations) {
    ONECOPY_ASSIGN_OR_RETURN(Opened open, Open(*gpu, one));
    if (one.bytes > gpu->info().total_bytes - bytes) {
      return BadDescriptor("the passed memory is larger than the memory of " + gpu->ToString());
    }
    bytes += one.bytes;
    granularity = std::max(granularity, open.granularity);
    opened.push_back(std::move(open));
  }
  VmmMapping mapping(gpu, std::move(all));
  CUresult error = mapping.Reserve(bytes, granularity);
  for (size_t i = 0; i < opened.size() && error == CUDA_SUCCESS; ++i) {
    error = mapping.Append(opened[i].handle->value, allocations[i].bytes);
  }
  if (error == CUDA_SUCCESS) error = mapping.LetReach(true);
  if (error != CUDA_SUCCESS) {
    return gpu->Failure(
        error,
        "mapping the passed memory with a size of " + FormatBytes(bytes) + " on " + gpu->ToString(),
        Code::kInvalidArgument, reasons::kBadHandle,
        "pass the descriptor of cuMemExportToShareableHandle, and the size that "
        "cuMemCreate was given");
  }
  return mapping;
}

}  // namespace onecopy::cuda
