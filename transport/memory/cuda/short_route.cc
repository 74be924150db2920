#include "transport/memory/cuda/short_route.h"

#include <cassert>
#include <utility>
#include <vector>

namespace onecopy::cuda {

CudaShortRoute::CudaShortRoute(const std::string& node, CudaCopyRoute::Parts parts,
                               std::shared_ptr<ShortLane> lane)
    : parts_(std::move(parts)),
      lane_(std::move(lane)),
      steps_(std::make_shared<ShortSteps>(
          std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                            .from = parts_.from->step_name(),
                                                            .to = parts_.to->step_name(),
                                                            .by = "copy-engine"}))) {}

Status CudaShortRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  assert(from_offset <= parts_.from->bytes() && bytes <= parts_.from->bytes() - from_offset);
  assert(to_offset <= parts_.to->bytes() && bytes <= parts_.to->bytes() - to_offset);
  return lane_->Begin(parts_.direction,
                      reinterpret_cast<uintptr_t>(parts_.from->address()) + from_offset,
                      reinterpret_cast<uintptr_t>(parts_.to->address()) + to_offset, bytes);
}

}  // namespace onecopy::cuda
