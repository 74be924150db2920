// GPU memory of the driver's virtual memory management: allocated by the daemon, or a client's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/import_request.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

// Which addresses of this process are such mappings, and which GPUs reach them. Any thread.
class VmmMappings {
 public:
  void Add(CUdeviceptr address, uint64_t bytes, int device, bool imported);
  void Remove(CUdeviceptr address);

  // Whether `address` lies in such a mapping.
  bool Contains(CUdeviceptr address) const;
  // Whether it does and another process has allocated it.
  bool IsImported(CUdeviceptr address) const;
  // Lets `gpu` read and write the mapping that holds `address`; at once where it already may. The
  // driver's own error.
  CUresult LetReach(const Gpu& gpu, CUdeviceptr address);

 private:
  struct Mapping {
    uint64_t bytes = 0;
    bool imported = false;
    std::set<int> reached_by;  // GPUs, by the driver's numbers
  };
  std::map<CUdeviceptr, Mapping>::const_iterator Find(CUdeviceptr address) const
      ONECOPY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<CUdeviceptr, Mapping> mappings_ ONECOPY_GUARDED_BY(mutex_);  // by address
};

// Ownership of one mapped allocation, or of several one behind the other, readable and writable by
// its own GPU. Made while the context of the GPU is open; may outlive that; any thread.
class VmmMapping {
 public:
  VmmMapping() = default;
  ~VmmMapping();
  VmmMapping(VmmMapping&& other) noexcept;
  VmmMapping& operator=(VmmMapping&& other) noexcept;

  // New memory of at least `bytes`, not cleared. NO_MEMORY.
  static Result<VmmMapping> Create(std::shared_ptr<Gpu> gpu, std::shared_ptr<VmmMappings> all,
                                   uint64_t bytes);
  // A client's allocations of exactly those sizes, whose descriptors stay the caller's; they are
  // mapped one behind the other. At least one. INVALID_ARGUMENT (BAD_HANDLE) for what is none, or
  // lies elsewhere than on `gpu`.
  static Result<VmmMapping> Import(std::shared_ptr<Gpu> gpu, std::shared_ptr<VmmMappings> all,
                                   std::span<const ImportRequest::Allocation> allocations);

  CUdeviceptr address() const { return address_; }
  uint64_t bytes() const { return bytes_; }  // of the whole mapping

 private:
  VmmMapping(std::shared_ptr<Gpu> gpu, std::shared_ptr<VmmMappings> all)
      : gpu_(std::move(gpu)), all_(std::move(all)) {}

  // In this order; the driver's own error: takes addresses, maps the next allocation there, lets
  // the GPU reach all that is mapped.
  CUresult Reserve(uint64_t bytes, uint64_t granularity);
  CUresult Append(CUmemGenericAllocationHandle handle, uint64_t bytes);
  CUresult LetReach(bool imported);

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<VmmMappings> all_;
  CUdeviceptr address_ = 0;
  uint64_t bytes_ = 0;            // reserved; 0: nothing is
  std::vector<uint64_t> mapped_;  // bytes of each allocation
};

}  // namespace onecopy::cuda
