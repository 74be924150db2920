// Copies by a GPU's copy engines, for the requesting thread.
#pragma once

#include <memory>
#include <string>

#include "transport/core/contracts/small_copy_route.h"
#include "transport/memory/cuda/copy_route.h"
#include "transport/memory/cuda/polled_lane.h"

namespace onecopy::cuda {

class CudaSmallCopyRoute final : public SmallCopyRoute {
 public:
  CudaSmallCopyRoute(const std::string& node, CudaCopyRoute::Parts parts,
                     std::shared_ptr<PolledLane> lane);

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t most_list_bytes() const override;
  Status BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes) override;
  uint64_t Mark() override { return lane_->Mark(); }
  bool Reached(uint64_t mark, Status* failure) override { return lane_->Reached(mark, failure); }
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }
  std::shared_ptr<const SmallSteps> list_steps() const override { return list_steps_; }

 private:
  const CudaCopyRoute::Parts parts_;
  const std::shared_ptr<PolledLane> lane_;
  const std::shared_ptr<const SmallSteps> steps_;
  const std::shared_ptr<const SmallSteps> list_steps_;
};

}  // namespace onecopy::cuda
