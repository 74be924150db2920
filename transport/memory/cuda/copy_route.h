// Copies that a GPU's copy engines make.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/core/contracts/memory.h"
#include "transport/memory/cuda/copier.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/one_pass.h"

namespace onecopy::cuda {

class CudaCopyRoute final : public CopyRoute {
 public:
  struct Parts {
    GpuUse gpu;  // the one that copies
    RegionRef from;
    RegionRef to;
    // Where the copying GPU sees the regions' first bytes.
    uintptr_t from_address = 0;
    uintptr_t to_address = 0;
    GpuUse pin;  // of the GPU in whose context a host end is pinned, if there is one
    Direction direction = Direction::kInside;
    // Between GPUs: which way this is, and what has been seen of such ways.
    OnePass::Pair way = {};
    std::shared_ptr<OnePass> one_pass = nullptr;
  };

  CudaCopyRoute(const std::string& node, Parts parts);

  // The one step of a copy between these parts: "copy-engine" or "gpu-kernel" makes it.
  static StepList StepBy(const std::string& node, const Parts& parts, const char* by);

  void SetFlow(const Flow& flow) override { turn_.flow = flow; }
  void Cancel() override;
  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  Status Prove(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  std::string proof() const override { return proof_; }
  unsigned depth() const override;
  uint64_t chunk_bytes() const override;
  Executor& executor() override { return parts_.gpu->loop(); }

 private:
  void Refuse(Status why, Done done);

  const Parts parts_;
  const StepList steps_;
  const StepList kernel_steps_;  // of scattered copies, where the kernel makes them
  Copier::Turn turn_;
  std::string proof_;
};

}  // namespace onecopy::cuda
