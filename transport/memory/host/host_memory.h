// Host memory: sealed memfds, the daemon's own and those that clients pass, so that a mapping of
// them can never fault; copies between them by a few threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/memory.h"
#include "transport/os/event_loop.h"

namespace onecopy::host {

class HostMemory final : public Memory {
 public:
  // `node` names this node in steps. Starts `threads` threads for copies.
  HostMemory(std::string node, unsigned threads);

  const std::string& kind() const override { return kind_; }
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;
  // RESOURCE_EXHAUSTED when the machine, or this process's cgroup, has not that much left besides
  // what is already promised to buffers whose pages have not been touched yet.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;
  // Form "memfd": BAD_HANDLE unless it is one, sealed against shrinking, writable, and long enough.
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override;
  bool Copies(const Place& from, const Place& to) const override;
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;
  bool prepares_at_once() const override { return true; }
  Result<std::unique_ptr<ShortRoute>> PrepareShort(const RegionRef& from,
                                                   const RegionRef& to) override;
  Status CloseDevice(const std::string& device) override;

 private:
  class Promises;

  const std::string kind_ = "host";
  const std::string node_;
  std::shared_ptr<Promises> promises_;
  std::shared_ptr<std::vector<std::unique_ptr<os::LoopThread>>> threads_;
};

}  // namespace onecopy::host
