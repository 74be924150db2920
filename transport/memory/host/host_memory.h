// Host memory: sealed memfds of the daemon's own, and memory files that clients pass; copies
// between them by a few threads. A page that is not available fails what needs it and nothing else
// (os::FaultGuard).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/core/contracts/memory.h"
#include "transport/memory/host/promises.h"
#include "transport/os/memory/copy_threads.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::host {

class HostMemory final : public Memory {
 public:
  // `node` names this node in steps. Starts `threads` threads for copies.
  HostMemory(std::string node, unsigned threads);
  // Ends the threads for copies: a route may outlive it for a moment, and then be the last to hold
  // them, on one of them.
  ~HostMemory() override;

  const std::string& kind() const override { return kind_; }
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;
  // RESOURCE_EXHAUSTED when the machine, or this process's cgroup, has not that much left besides
  // what is already promised to buffers whose pages have not been touched yet.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;
  // Of huge pages where the kernel has them, all of them there when it returns; named "pinned"
  // where they are locked.
  Result<std::unique_ptr<Region>> AllocateForStaging(const std::string& device, uint64_t bytes,
                                                     int32_t numa_node) override;
  Result<std::unique_ptr<Region>> Restore(const ImportRequest& kept) override;
  // Form "memfd": BAD_HANDLE unless it is a memory file, and writable; one that may shrink has the
  // form "shm" then. Bytes that have no memory yet are promised like the daemon's own.
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override;
  bool Copies(const Place& from, const Place& to) const override;
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;
  bool prepares_at_once() const override { return true; }
  Result<std::unique_ptr<SmallCopyRoute>> PrepareSmall(const RegionRef& from,
                                                       const RegionRef& to) override;
  Status CloseDevice(const std::string& device) override;

 private:
  // Of a memory file that is the daemon's own, and sealed.
  Result<std::unique_ptr<Region>> Own(os::UniqueFd fd, uint64_t bytes, bool shared) const;
  std::unique_ptr<Region> Guarded(std::byte* data, uint64_t bytes, os::Mapping mapping,
                                  Region::Release after) const;

  const std::string kind_ = "host";
  const std::string node_;
  std::shared_ptr<Promises> promises_;
  const std::shared_ptr<os::CopyThreads> threads_;
};

}  // namespace onecopy::host
