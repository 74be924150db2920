// Ways to copy inside this node, made where that may block: on the worker of one of the memories.
#pragma once

#include <memory>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "transport/core/contracts/memory.h"

namespace onecopy::engine {

// The worker on which slow calls about memory at this place are made.
inline const std::string& WorkerOf(const Place& place) {
  return place.device.empty() ? place.kind : place.device;
}
// The one of a copy between two places: a device's, where there is one.
inline const std::string& WorkerOf(const Place& from, const Place& to) {
  return WorkerOf(from.device.empty() ? to : from);
}

// FAILED_PRECONDITION (NOT_APPLICABLE): nothing on this node copies between these two.
Status NothingCopies(const Context& context, const Region& from, const Region& to);

// Engine thread. Prepares a route in that queue, and gives it back there. Fails as Copier::Prepare
// does, and as NothingCopies.
void PrepareRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                  const RegionRef& to, Reply<std::shared_ptr<CopyRoute>> reply);
// Likewise by Copier::PrepareSmall, and by Copier::PrepareLong.
void PrepareSmallCopyRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                           const RegionRef& to, Reply<std::shared_ptr<SmallCopyRoute>> reply);
void PrepareLongCopyRoute(Context& context, const WorkQueue& queue, const RegionRef& from,
                          const RegionRef& to, Reply<std::shared_ptr<SmallCopyRoute>> reply);

}  // namespace onecopy::engine
