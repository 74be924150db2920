// Copies between ordinary memory of a client's process and its slab, by the client's threads.
#pragma once

#include <memory>
#include <vector>

#include "transport/core/contracts/memory.h"
#include "transport/memory/process/slab.h"

namespace onecopy::process {

// Completions run on the slabs' thread.
class ProcessCopyRoute final : public CopyRoute {
 public:
  // The end that is not the slab.
  struct Own {
    std::shared_ptr<Slab> slab;
    uint64_t region = 0;        // the client's name for it
    Region::FaultFlag faulted;  // of it
  };

  ProcessCopyRoute(Own own, orders::Way way, RegionRef from, RegionRef to);

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  unsigned depth() const override { return 16; }
  uint64_t chunk_bytes() const override { return uint64_t{1} << 20; }
  Executor& executor() override { return own_.slab->executor(); }

 private:
  const Own own_;
  const orders::Way way_;
  const RegionRef from_;
  const RegionRef to_;
  const StepList steps_;
};

}  // namespace onecopy::process
