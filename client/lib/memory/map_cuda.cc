#include "client/lib/memory/map_cuda.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/calls/fork_guard.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {
namespace {

using ApiRef = std::shared_ptr<const shim::CudaApi>;

Status Failed(const shim::CudaApi& api, CUresult error, const std::string& what,
              std::string_view reason = reasons::kDriverFailed, std::string remedy = {}) {
  return {Code::kFailedPrecondition, reason, what + ": " + shim::CudaErrorText(api, error),
          std::move(remedy)};
}

// The primary context of one GPU, held open.
class Context {
 public:
  static Result<Context> Open(ApiRef api, int ordinal) {
    Context made;
    CUdevice device = 0;
    CUresult error = api->DeviceGet(&device, ordinal);
    if (error == CUDA_SUCCESS) {
      made.held_ = std::make_unique<shim::PrimaryCudaContext>(*api, device);
      error = made.held_->outcome();
    }
    if (error != CUDA_SUCCESS) {
      return Failed(*api, error, "opening the context of cuda:" + std::to_string(ordinal));
    }
    made.api_ = std::move(api);
    return made;
  }

  const shim::CudaApi& api() const { return *api_; }
  CUcontext get() const { return held_->get(); }
  // In a forked child, where the driver is not to be asked for anything.
  void Abandon() { static_cast<void>(held_.release()); }

 private:
  ApiRef api_;
  std::unique_ptr<shim::PrimaryCudaContext> held_;  // goes first
};

// Allocations of cuMemCreate, mapped one behind the other.
class MappedVmm final : public MappedMemory {
 public:
  MappedVmm(Context context, CUdeviceptr start, uint64_t bytes, std::vector<uint64_t> mapped,
            uint64_t offset, int device)
      : MappedMemory(reinterpret_cast<void*>(start + offset), device),
        context_(std::move(context)),
        start_(start),
        bytes_(bytes),
        mapped_(std::move(mapped)) {}

  Status Unmap() override {
    if (!ForkGuard::CheckObject(made_in_).ok()) {
      context_.Abandon();
      return OkStatus();
    }
    const shim::CudaApi& api = context_.api();
    const shim::NotCapturing relaxed(api);
    CUresult first = CUDA_SUCCESS;
    CUdeviceptr at = start_;
    for (const uint64_t bytes : mapped_) {
      const CUresult error = api.MemUnmap(at, bytes);
      if (first == CUDA_SUCCESS) first = error;
      at += bytes;
    }
    const CUresult error = api.MemAddressFree(start_, bytes_);
    if (first == CUDA_SUCCESS) first = error;
    return first == CUDA_SUCCESS ? OkStatus() : Failed(api, first, "unmapping a buffer's memory");
  }

 private:
  const uint64_t made_in_ = ForkGuard::Generation();
  Context context_;
  const CUdeviceptr start_;
  const uint64_t bytes_;
  const std::vector<uint64_t> mapped_;
};

// What a mapping needs, while it is made.
struct Place {
  int memory = 0;  // the GPU where it lies
  int user = 0;    // the one that uses it
};

Status NoPeerAccess(const Place& place, const std::string& why) {
  return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
          "cuda:" + std::to_string(place.user) +
              " does not reach memory of cuda:" + std::to_string(place.memory) + ": " + why,
          "map it on its own GPU, or transfer it; see nvidia-smi topo -p2p w"};
}

Result<std::unique_ptr<MappedMemory>> MapVmm(const ApiRef& api, const GivenMemory& given,
                                             const Place& place) {
  ONECOPY_ASSIGN_OR_RETURN(Context context, Context::Open(api, place.user));
  const shim::ScopedCudaContext scope(*api, context.get());
  CUresult error = scope.outcome();
  std::vector<CUmemGenericAllocationHandle> handles;
  uint64_t bytes = 0;
  size_t granularity = 0;
  for (const GivenMemory::Allocation& one : given.allocations) {
    CUmemGenericAllocationHandle handle = 0;
    if (error == CUDA_SUCCESS) {
      error = api->MemImportFromShareableHandle(
          &handle, reinterpret_cast<void*>(static_cast<uintptr_t>(one.fd.get())),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    }
    if (error != CUDA_SUCCESS) break;
    handles.push_back(handle);
    CUmemAllocationProp properties{};
    error = api->MemGetAllocationPropertiesFromHandle(&properties, handle);
    size_t own = 0;
    if (error == CUDA_SUCCESS) {
      error = api->MemGetAllocationGranularity(&own, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    }
    granularity = std::max(granularity, own);
    bytes += one.bytes;
  }
  CUdeviceptr start = 0;
  bool reserved = false;
  if (error == CUDA_SUCCESS) {
    error = api->MemAddressReserve(&start, bytes, granularity, 0, 0);
    reserved = error == CUDA_SUCCESS;
  }
  std::vector<uint64_t> mapped;
  CUdeviceptr at = start;
  for (size_t i = 0; i < given.allocations.size() && error == CUDA_SUCCESS; ++i) {
    error = api->MemMap(at, given.allocations[i].bytes, 0, handles[i], 0);
    if (error == CUDA_SUCCESS) mapped.push_back(given.allocations[i].bytes);
    at += given.allocations[i].bytes;
  }
  for (const CUmemGenericAllocationHandle handle : handles) api->MemRelease(handle);
  if (error == CUDA_SUCCESS) {
    // From here on the mapping gives all of it back.
    auto memory = std::make_unique<MappedVmm>(std::move(context), start, bytes, std::move(mapped),
                                              given.offset, place.user);
    std::vector<CUmemAccessDesc> access;
    for (const int device : {place.memory, place.user}) {
      if (!access.empty() && place.memory == place.user) break;
      CUmemAccessDesc& one = access.emplace_back();
      one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      one.location.id = device;
      one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    error = api->MemSetAccess(start, bytes, access.data(), access.size());
    if (error == CUDA_SUCCESS) return std::unique_ptr<MappedMemory>(std::move(memory));
    static_cast<void>(memory->Unmap());
    if (place.memory != place.user) return NoPeerAccess(place, shim::CudaErrorText(*api, error));
  } else if (reserved) {
    at = start;
    for (const uint64_t one : mapped) {
      api->MemUnmap(at, one);
      at += one;
    }
    api->MemAddressFree(start, bytes);
  }
  return Failed(*api, error, "mapping the GPU memory of buffer \"" + given.buffer.name + "\"");
}

// Legacy handles that are open in this process: the driver opens none twice.
class OpenHandles {
 public:
  static OpenHandles& Instance() {
    static auto* const all = new OpenHandles();  // mappings may end after main
    return *all;
  }

  // With the GPU's context current.
  CUresult Open(const shim::CudaApi& api, int device, const std::string& handle,
                CUdeviceptr* address) {
    const MutexLock lock(mutex_);
    Entry& entry = entries_[{device, handle}];
    if (entry.users == 0) {
      CUipcMemHandle native{};
      std::memcpy(native.reserved, handle.data(), std::min(handle.size(), sizeof native.reserved));
      const CUresult error =
          api.IpcOpenMemHandle(&entry.address, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
      if (error != CUDA_SUCCESS) {
        entries_.erase({device, handle});
        return error;
      }
    }
    ++entry.users;
    *address = entry.address;
    return CUDA_SUCCESS;
  }

  CUresult Close(const shim::CudaApi& api, int device, const std::string& handle) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find({device, handle});
    if (found == entries_.end() || --found->second.users > 0) return CUDA_SUCCESS;
    const CUdeviceptr address = found->second.address;
    entries_.erase(found);
    return api.IpcCloseMemHandle(address);
  }

 private:
  struct Entry {
    CUdeviceptr address = 0;
    unsigned users = 0;
  };

  Mutex mutex_;
  std::map<std::pair<int, std::string>, Entry> entries_ ONECOPY_GUARDED_BY(mutex_);
};

class MappedIpc final : public MappedMemory {
 public:
  MappedIpc(Context context, std::string handle, CUdeviceptr data, int device)
      : MappedMemory(reinterpret_cast<void*>(data), device),
        context_(std::move(context)),
        handle_(std::move(handle)) {}

  Status Unmap() override {
    if (!ForkGuard::CheckObject(made_in_).ok()) {
      context_.Abandon();
      return OkStatus();
    }
    const shim::CudaApi& api = context_.api();
    const shim::NotCapturing relaxed(api);
    const shim::ScopedCudaContext scope(api, context_.get());
    CUresult error = scope.outcome();
    // Also where that failed: no thread may find the address again.
    const CUresult closed = OpenHandles::Instance().Close(api, *cuda_device(), handle_);
    if (error == CUDA_SUCCESS) error = closed;
    return error == CUDA_SUCCESS ? OkStatus() : Failed(api, error, "closing a buffer's memory");
  }

 private:
  const uint64_t made_in_ = ForkGuard::Generation();
  Context context_;
  const std::string handle_;
};

Result<std::unique_ptr<MappedMemory>> MapIpc(const ApiRef& api, const GivenMemory& given,
                                             const Place& place) {
  ONECOPY_ASSIGN_OR_RETURN(Context context, Context::Open(api, place.user));
  const shim::ScopedCudaContext scope(*api, context.get());
  CUdeviceptr start = 0;
  CUresult error = scope.outcome();
  if (error == CUDA_SUCCESS) {
    error = OpenHandles::Instance().Open(*api, place.user, given.handle, &start);
  }
  if (error != CUDA_SUCCESS) {
    return Failed(*api, error, "opening the GPU memory of buffer \"" + given.buffer.name + "\"",
                  reasons::kDriverFailed,
                  error == CUDA_ERROR_ALREADY_MAPPED
                      ? "this process has opened it without onecopy: use that pointer"
                      : "");
  }
  return std::unique_ptr<MappedMemory>(std::make_unique<MappedIpc>(
      std::move(context), given.handle, start + given.offset, place.user));
}

// Its number in this process, by the UUID.
Result<int> FindOrdinal(const shim::CudaApi& api, const std::string& uuid) {
  int count = 0;
  CUresult error = api.DeviceGetCount(&count);
  if (error != CUDA_SUCCESS) return Failed(api, error, "counting GPUs");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = 0;
    error = api.DeviceGet(&device, ordinal);
    if (error != CUDA_SUCCESS) continue;
    const Result<shim::CudaUuid> found = shim::ReadCudaUuid(api, device);
    if (found.ok() && found->text == uuid) return ordinal;
  }
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "the memory lies on " + uuid + ", which is not visible to this process",
                "make that GPU visible to it (CUDA_VISIBLE_DEVICES)");
}

Status CheckReaches(const shim::CudaApi& api, const Place& place) {
  CUdevice memory = 0;
  CUdevice user = 0;
  if (api.DeviceGet(&user, place.user) != CUDA_SUCCESS) {
    return {Code::kNotFound, reasons::kDeviceNotFound,
            "this process has no GPU cuda:" + std::to_string(place.user),
            "use this process's numbers, from 0 (CUDA_VISIBLE_DEVICES)"};
  }
  if (place.user == place.memory) return OkStatus();
  int can = 0;
  CUresult error = api.DeviceGet(&memory, place.memory);
  if (error == CUDA_SUCCESS) error = api.DeviceCanAccessPeer(&can, user, memory);
  if (error != CUDA_SUCCESS) return NoPeerAccess(place, shim::CudaErrorText(api, error));
  return can != 0 ? OkStatus()
                  : NoPeerAccess(place, "the driver reports no peer access between the two");
}

}  // namespace

Result<std::unique_ptr<MappedMemory>> MapCuda(std::shared_ptr<const shim::CudaApi> api,
                                              GivenMemory& given, std::optional<int> wanted) {
  const shim::NotCapturing relaxed(*api);
  Place place;
  ONECOPY_ASSIGN_OR_RETURN(place.memory, FindOrdinal(*api, given.buffer.device));
  place.user = wanted.value_or(place.memory);
  ONECOPY_RETURN_IF_ERROR(CheckReaches(*api, place));
  if (given.form == "cuda-vmm") return MapVmm(api, given, place);
  if (given.form == "cuda-ipc") return MapIpc(api, given, place);
  return Status(Code::kFailedPrecondition, reasons::kNotShareable,
                "buffer \"" + given.buffer.name + "\" is shared as \"" + given.form +
                    "\", which this library does not know",
                "install the same version of onecopyd and of its clients");
}

}  // namespace onecopy::client
