// One UCX context: its configuration, and the memory that is known to it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/link/ucx/gpu_contexts.h"
#include "transport/link/ucx/resources.h"
#include "transport/shim/ucx.h"

namespace onecopy::ucx {

struct ContextOptions {
  std::shared_ptr<const shim::UcxApi> api;
  std::vector<std::string> transports;  // empty: see DefaultTransports
  std::vector<std::string> devices;     // as [rdma] devices
  bool network = false;                 // a node on another machine is trusted
};

// A region that is known to UCX: its handle and its key, for as long as the region lives.
struct MappedMemory {
  ucp_mem_h handle = nullptr;
  ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
  std::string rkey;  // packed, for any reader
};

// Any thread. Lives until the last region that was mapped is gone.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // UNAVAILABLE or FAILED_PRECONDITION where UCX cannot be started; the text is UCX's.
  static Result<std::shared_ptr<Context>> Open(const ContextOptions& options);
  ~Context();

  const shim::UcxApi& api() const { return *api_; }
  ucp_context_h handle() const { return handle_; }
  const std::vector<Resource>& resources() const { return resources_; }
  // RDMA ones that are there and allowed, but not used.
  const std::vector<Resource>& unused() const { return unused_; }
  bool has_cuda() const { return cuda_; }

  // Whether a failing endpoint completes what is under way on it (see README.md, error handling).
  bool reaches_network() const { return ReachNetwork(resources_); }
  // Whether UCX names the protocol of each operation.
  bool names_protocols() const { return names_protocols_; }
  // Whether a get that UCX emulates can be given up: before 1.15, UCX ends the process instead.
  bool may_emulate() const {
    return reaches_network() && (!names_protocols_ || api_->NotOlderThan(1, 15));
  }
  // What this link set, as the variables of the environment that would do the same.
  const std::map<std::string, std::string>& settings() const { return settings_; }

  // Maps the region once, for as long as it lives. May block for long.
  Result<std::shared_ptr<const MappedMemory>> Map(const RegionRef& region);
  GpuContexts& gpus() { return gpus_; }
  // What Map has made of it; null where it was not called.
  std::shared_ptr<const MappedMemory> Find(const Region& region) const;

  // A failure of `what` for UCX's status.
  Status Failure(ucs_status_t status, const std::string& what, Code code,
                 std::string_view reason) const;

 private:
  explicit Context(std::shared_ptr<const shim::UcxApi> api) : api_(std::move(api)) {}
  Status Init();
  void Close();
  void ReadResources();
  void Set(const std::string& name, const std::string& value);
  Status ChooseTransports(const ContextOptions& options);
  bool ChooseProtocols();  // true where that needs a new start
  void Unmap(const Region* region);

  const std::shared_ptr<const shim::UcxApi> api_;
  std::map<std::string, std::string> settings_;
  ucp_context_h handle_ = nullptr;
  std::vector<Resource> resources_;
  std::vector<Resource> unused_;
  bool cuda_ = false;
  bool names_protocols_ = false;

  GpuContexts gpus_;
  mutable Mutex mutex_;
  std::map<const Region*, std::shared_ptr<const MappedMemory>> mapped_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::ucx
