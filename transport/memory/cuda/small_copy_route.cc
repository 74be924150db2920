#include "transport/memory/cuda/small_copy_route.h"

#include <utility>
#include <vector>

#include "transport/core/scatter.h"

namespace onecopy::cuda {

CudaSmallCopyRoute::CudaSmallCopyRoute(const std::string& node, CudaCopyRoute::Parts parts,
                                       std::shared_ptr<PolledLane> lane)
    : parts_(std::move(parts)),
      lane_(std::move(lane)),
      steps_(std::make_shared<SmallSteps>(
          std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                            .from = parts_.from->step_name(),
                                                            .to = parts_.to->step_name(),
                                                            .by = "copy-engine"}))) {}

Status CudaSmallCopyRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
  ONECOPY_RETURN_IF_ERROR(CheckInside({&copy, 1}, parts_.from->bytes(), parts_.to->bytes()));
  return lane_->Begin(parts_.direction, parts_.from_address + from_offset,
                      parts_.to_address + to_offset, bytes);
}

}  // namespace onecopy::cuda
