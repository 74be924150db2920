// Memory that only a client's process reaches: malloc's, NumPy's, CPU tensors', and GPU memory that
// cannot be shared. See README.md.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/memory.h"
#include "transport/memory/process/slab.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::process {

class ProcessMemory final : public Memory {
 public:
  // `node` names this node in steps; each slab has `slab_bytes`. Starts a thread.
  ProcessMemory(std::string node, uint64_t slab_bytes, std::chrono::milliseconds patience);
  ~ProcessMemory() override;

  const std::string& kind() const override { return kind_; }
  // One entry for each, which the processor does not address: not from here.
  std::vector<MemoryCapability> Describe() const override;
  Result<std::string> FindDevice(const std::string& typed) const override;
  // FAILED_PRECONDITION: such memory belongs to its process.
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override;
  // Forms "process" and "process-gpu": FAILED_PRECONDITION (NOT_APPLICABLE) without a slab. That
  // the memory is there, and is the client's, the client's library alone can tell, when it copies.
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override;
  bool imports_at_once() const override { return true; }
  Result<std::shared_ptr<ClientSlab>> OpenSlab(const ShareRegion& share) override;
  // Between such memory and host memory.
  bool Copies(const Place& from, const Place& to) const override;
  // FAILED_PRECONDITION (NOT_APPLICABLE) for host memory that is not that client's slab,
  // PERMISSION_DENIED (ACCESS_DENIED) into memory that is only to be read.
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;
  bool prepares_at_once() const override { return true; }
  Status CloseDevice(const std::string& device) override;

 private:
  struct Imported {
    std::shared_ptr<Slab> slab;
    uint64_t region = 0;
    bool read_only = false;
    Region::FaultFlag faulted;
  };
  // Which region is which memory. Outlives this while regions do.
  struct Table {
    Mutex mutex;
    std::map<const Region*, Imported> entries ONECOPY_GUARDED_BY(mutex);
  };

  const std::string kind_ = kProcessKind;
  const uint64_t slab_bytes_;
  const std::shared_ptr<Shared> all_;
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace onecopy::process
