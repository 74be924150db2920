// Which lane a route's long copies take.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/polled_lane.h"

namespace onecopy::cuda {

// Thread-safe; used on threads that may block. Each route has a lane of its own, so that its long
// copies do not wait for those of others, until a GPU has kMost of them: streams cost the driver
// memory. From there on routes share the lane that fewest routes have.
class LongLanes {
 public:
  static constexpr size_t kMost = 32;  // of a GPU

  // Fails with the driver's reason. A lane goes with the last of its routes.
  Result<std::shared_ptr<PolledLane>> Take(Gpu& gpu);

 private:
  Mutex mutex_;
  std::map<const Gpu*, std::vector<std::weak_ptr<PolledLane>>> lanes_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cuda
