// Copies that a GPU's copy engines make.
#pragma once

#include "transport/core/memory.h"
#include "transport/memory/cuda/copier.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

class CudaCopyRoute final : public CopyRoute {
 public:
  struct Parts {
    GpuUse gpu;  // the one that copies
    RegionRef from;
    RegionRef to;
    GpuUse pin;  // of the GPU in whose context a host end is pinned, if there is one
    Direction direction = Direction::kInside;
  };

  CudaCopyRoute(const std::string& node, Parts parts);

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  unsigned depth() const override;
  uint64_t chunk_bytes() const override;
  Executor& executor() override { return parts_.gpu->loop(); }

 private:
  const Parts parts_;
  const StepList steps_;
  const StepList kernel_steps_;  // of scattered copies, where the kernel makes them
};

}  // namespace onecopy::cuda
