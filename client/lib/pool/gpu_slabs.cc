#include "client/lib/pool/gpu_slabs.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "client/lib/memory/gpu_memory.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::client {
namespace {

std::byte* Pointer(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }
CUdeviceptr Address(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

Status CheckShareable(const GpuDevice& gpu) {
  const auto refused = [&](const std::string& why) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotShareable,
        "a pool's memory on " + gpu.ToString() + " cannot be shared with the daemon: " + why,
        "use another GPU, or memory that the daemon allocates (buffer create)");
  };
  if (gpu.uuid().mig)
    return refused("it is a MIG instance, and other processes cannot map its memory");
  if (!gpu.Has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return refused("the driver lacks virtual memory management (cuMemCreate) for it");
  }
  if (!gpu.Has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    return refused("the driver cannot export its memory as POSIX file descriptors");
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<GpuSlabs>> GpuSlabs::Open(std::shared_ptr<Connection> connection,
                                                 GpuDeviceRef gpu, const PoolOptions& options) {
  ONECOPY_RETURN_IF_ERROR(CheckShareable(*gpu));
  if (options.managed_overflow &&
      (gpu->api().MemAllocManaged == nullptr || !gpu->Has(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  gpu->ToString() + " has no managed memory",
                  "make the pool without managed_overflow");
  }
  std::unique_ptr<GpuSlabs> slabs(new GpuSlabs(std::move(connection), std::move(gpu), options));
  ONECOPY_RETURN_IF_ERROR(slabs->Reserve(options.limit_bytes));
  return slabs;
}

GpuSlabs::GpuSlabs(std::shared_ptr<Connection> connection, GpuDeviceRef gpu,
                   const PoolOptions& options)
    : connection_(std::move(connection)),
      gpu_(std::move(gpu)),
      managed_overflow_(options.managed_overflow),
      names_(options.name) {
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = gpu_->number();
  properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties_.allocFlags.gpuDirectRDMACapable =
      gpu_->Has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) ? 1 : 0;
}

GpuSlabs::~GpuSlabs() {
  if (range_bytes_ == 0) return;
  const GpuDevice::Scope scope(*gpu_);
  if (scope.status().ok()) gpu_->api().MemAddressFree(range_, range_bytes_);
}

Status GpuSlabs::Reserve(uint64_t limit_bytes) {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  const shim::CudaApi& api = gpu_->api();
  size_t granularity = 0;
  CUresult error =
      api.MemGetAllocationGranularity(&granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (error != CUDA_SUCCESS) return gpu_->Failure("cuMemGetAllocationGranularity", error);
  granularity_ = granularity;
  const uint64_t most = std::min(limit_bytes, 2 * gpu_->total_bytes());
  const uint64_t bytes =
      std::max<uint64_t>(1, (most + granularity - 1) / granularity) * granularity;
  error = api.MemAddressReserve(&range_, bytes, granularity, 0, 0);
  if (error == CUDA_SUCCESS) {
    range_bytes_ = bytes;
    return OkStatus();
  }
  if (error != CUDA_ERROR_OUT_OF_MEMORY) return gpu_->Failure("cuMemAddressReserve", error);
  return {Code::kResourceExhausted, reasons::kNoMemory,
          "the driver has no free address range of " + FormatBytes(bytes) + " for a pool on " +
              gpu_->ToString(),
          "raise the limit on the address space (ulimit -v), or lower limit_bytes"};
}

Status GpuSlabs::Full(const char* what, uint64_t bytes) const {
  size_t free = 0;
  size_t total = 0;
  std::string left;
  if (gpu_->api().MemGetInfo(&free, &total) == CUDA_SUCCESS) {
    left = ": " + FormatBytes(free) + " of " + FormatBytes(total) + " are free";
  }
  return {
      Code::kResourceExhausted, reasons::kNoMemory,
      gpu_->ToString() + " has no " + what + " for a slab of " + FormatBytes(bytes) + left,
      "free GPU memory here or in other processes, or let the pool overflow into managed memory "
      "(managed_overflow)"};
}

Result<SlabSource::Slab> GpuSlabs::Make(uint64_t bytes) {
  // Held while the daemon is asked, too: slabs are made by one thread at a time anyway.
  const MutexLock lock(mutex_);
  const std::string name = names_.Next();
  auto made = MapOnGpu(name, bytes);
  if (managed_overflow_ && made.status().reason() == reasons::kNoMemory) made = Manage(name, bytes);
  if (!made.ok()) return made.status();
  auto& [address, held] = *made;
  if (const Status known = RegisterFirst(*connection_, held.memory).status(); !known.ok()) {
    Release(address, held);
    return known;
  }
  slabs_.emplace(address, std::move(held));
  return Slab{Pointer(address), bytes};
}

std::optional<CUdeviceptr> GpuSlabs::FreeAddress(uint64_t bytes) const {
  CUdeviceptr at = range_;
  for (const auto& [address, held] : slabs_) {
    if (held.managed) continue;
    if (address - at >= bytes) return at;
    at = address + held.bytes;
  }
  if (range_ + range_bytes_ - at >= bytes) return at;
  return {};
}

Result<std::pair<CUdeviceptr, GpuSlabs::Held>> GpuSlabs::MapOnGpu(const std::string& name,
                                                                  uint64_t bytes) {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  const auto address = FreeAddress(bytes);
  if (!address) return Full("addresses in one piece", bytes);
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, CreateAt(*address, bytes));
  return std::pair(
      *address, Held{bytes, false,
                     std::make_shared<GpuMemory>(name, bytes, gpu_->uuid().text, std::move(fd))});
}

// The mapping keeps the allocation, and so does the descriptor; its handle is not needed any more.
Result<os::UniqueFd> GpuSlabs::CreateAt(CUdeviceptr address, uint64_t bytes) const {
  const shim::CudaApi& api = gpu_->api();
  const auto failed = [&](const char* call, CUresult error) {
    return error == CUDA_ERROR_OUT_OF_MEMORY ? Full("memory", bytes) : gpu_->Failure(call, error);
  };
  CUmemGenericAllocationHandle handle = 0;
  CUresult error = api.MemCreate(&handle, bytes, &properties_, 0);
  if (error != CUDA_SUCCESS) return failed("cuMemCreate", error);
  const CUresult mapped = api.MemMap(address, bytes, 0, handle, 0);
  int number = -1;
  error =
      api.MemExportToShareableHandle(&number, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  os::UniqueFd fd(error == CUDA_SUCCESS ? number : -1);
  api.MemRelease(handle);
  if (mapped != CUDA_SUCCESS) return failed("cuMemMap", mapped);
  const char* call = "cuMemExportToShareableHandle";
  if (error == CUDA_SUCCESS) {
    ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    call = "cuMemSetAccess";
    CUmemAccessDesc access{};
    access.location = properties_.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    error = api.MemSetAccess(address, bytes, &access, 1);
  }
  if (error == CUDA_SUCCESS) return fd;
  api.MemUnmap(address, bytes);
  return failed(call, error);
}

Result<std::pair<CUdeviceptr, GpuSlabs::Held>> GpuSlabs::Manage(const std::string& name,
                                                                uint64_t bytes) const {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  CUdeviceptr address = 0;
  const CUresult error = gpu_->api().MemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return Full("memory, and the host no managed one,", bytes);
  if (error != CUDA_SUCCESS) return gpu_->Failure("cuMemAllocManaged", error);
  return std::pair(address,
                   Held{bytes, true, std::make_shared<ManagedMemory>(name, bytes, gpu_, address)});
}

void GpuSlabs::Release(CUdeviceptr address, const Held& held) const {
  const GpuDevice::Scope scope(*gpu_);
  if (!scope.status().ok()) return;  // the driver has ended, and all memory with it
  if (held.managed) {
    gpu_->api().MemFree(address);
  } else {
    gpu_->api().MemUnmap(address, held.bytes);
  }
}

Status GpuSlabs::Free(const Slab& slab) {
  MutexLock lock(mutex_);
  const auto found = slabs_.extract(Address(slab.data));
  lock.Unlock();
  if (found.empty()) return OkStatus();
  // A daemon that has gone took the buffer along, which is all that there is to do then.
  BufferInfo last;
  static_cast<void>(EndRegistration(*connection_, *found.mapped().memory, &last));
  Release(found.key(), found.mapped());
  return OkStatus();
}

std::optional<Endpoint> GpuSlabs::EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                             uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = slabs_.find(Address(slab));
  if (found == slabs_.end()) return {};
  BufferInfo now = found->second.memory->info();
  return Endpoint{std::move(now.node), std::move(now.id), offset_bytes, bytes};
}

std::vector<PoolSlab> GpuSlabs::List() const {
  const MutexLock lock(mutex_);
  std::vector<PoolSlab> list;
  for (const auto& [address, held] : slabs_) {
    list.push_back({Pointer(address), held.memory->info(), held.managed});
  }
  return list;
}

uint64_t GpuSlabs::managed_bytes() const {
  const MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, held] : slabs_) bytes += held.managed ? held.bytes : 0;
  return bytes;
}

}  // namespace onecopy::client
