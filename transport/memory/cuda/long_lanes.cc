#include "transport/memory/cuda/long_lanes.h"

#include <algorithm>
#include <utility>

namespace onecopy::cuda {

Result<std::shared_ptr<PolledLane>> LongLanes::Take(Gpu& gpu) {
  const MutexLock lock(mutex_);
  std::vector<std::weak_ptr<PolledLane>>& lanes = lanes_[&gpu];
  std::erase_if(lanes, [](const auto& lane) { return lane.expired(); });
  if (lanes.size() >= kMost) {
    const auto least = std::min_element(
        lanes.begin(), lanes.end(),
        [](const auto& one, const auto& other) { return one.use_count() < other.use_count(); });
    if (std::shared_ptr<PolledLane> shared = least->lock()) return shared;
  }
  ONECOPY_ASSIGN_OR_RETURN(GpuUse use, gpu.Use());
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<PolledLane> lane, PolledLane::Open(std::move(use)));
  lane->OpenLists();
  lanes.push_back(lane);
  return lane;
}

}  // namespace onecopy::cuda
