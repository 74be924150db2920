// Memory of GPUs that the drives' driver knows, for as long as something is to be moved there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/shim/cuda.h"
#include "transport/shim/cufile.h"
#include "transport/store/cufile/batches.h"

namespace onecopy::cufile {

// One region, and the context in which the library works with it.
class Registration {
 public:
  // Blocks. As DirectFile::Attach. Where the region as a whole does not fit into the GPU's BAR1,
  // pieces of at most `window_bytes` are registered while they are moved.
  static Result<std::unique_ptr<Registration>> Make(std::shared_ptr<const shim::CuFileApi> api,
                                                    std::shared_ptr<const shim::CudaApi> cuda,
                                                    const Region& memory, uint64_t window_bytes);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  bool windowed() const { return windowed_; }
  const std::string& device() const { return device_; }

  // Any thread that may wait. Reads or writes as cuFileRead does, at that offset of the region.
  ssize_t Move(bool write, shim::cufile::Handle file, uint64_t offset, uint64_t inside,
               uint64_t bytes) const;
  // Likewise; as Batches::Run. Not where it is windowed.
  std::vector<BatchEnd> MoveBatch(Batches& batches, bool write, shim::cufile::Handle file,
                                  std::span<const BatchPiece> pieces,
                                  const std::atomic<bool>& stop) const;

 private:
  Registration(std::shared_ptr<const shim::CuFileApi> api,
               std::shared_ptr<const shim::CudaApi> cuda)
      : api_(std::move(api)), cuda_(std::move(cuda)) {}

  const std::shared_ptr<const shim::CuFileApi> api_;
  const std::shared_ptr<const shim::CudaApi> cuda_;
  std::string device_;
  std::byte* base_ = nullptr;
  std::optional<shim::PrimaryCudaContext> context_;
  bool registered_ = false;
  bool windowed_ = false;
};

// Those that there are, by where their memory begins. Any thread; Attach, and the end of what it
// gives, block.
class Registrations : public std::enable_shared_from_this<Registrations> {
 public:
  Registrations(std::shared_ptr<const shim::CuFileApi> api,
                std::shared_ptr<const shim::CudaApi> cuda, uint64_t window_bytes)
      : api_(std::move(api)), cuda_(std::move(cuda)), window_bytes_(window_bytes) {}

  // Until the last of those that were given for this memory goes.
  Result<std::shared_ptr<const Registration>> Attach(const Region& memory);

 private:
  struct Entry {
    std::unique_ptr<Registration> registration;
    uint64_t bytes = 0;
    size_t uses = 0;
  };
  void Release(const std::byte* base);

  const std::shared_ptr<const shim::CuFileApi> api_;
  const std::shared_ptr<const shim::CudaApi> cuda_;
  const uint64_t window_bytes_;
  Mutex mutex_;  // held while the driver works: of two that begin together it refuses the second
  std::map<const std::byte*, Entry> all_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cufile
