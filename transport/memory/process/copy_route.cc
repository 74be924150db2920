#include "transport/memory/process/copy_route.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::process {

ProcessCopyRoute::ProcessCopyRoute(Own own, orders::Way way, RegionRef from, RegionRef to)
    : own_(std::move(own)),
      way_(way),
      from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<const std::vector<Step>>(1, Step{.node = own_.slab->node(),
                                                               .from = from_->step_name(),
                                                               .to = to_->step_name(),
                                                               .by = "client"})) {}

void ProcessCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  CopyMany({{.from = from_offset, .to = to_offset, .bytes = bytes}}, std::move(done));
}

void ProcessCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  Status usable = CheckInside(copies, from_->bytes(), to_->bytes());
  for (const RegionRef& end : {from_, to_}) {
    if (usable.ok()) usable = end->CheckUsable();
  }
  if (!usable.ok()) {
    return executor().Post(
        [this, usable, done = std::move(done)]() mutable { done(std::move(usable), steps_); });
  }
  own_.slab->Copy(way_, own_.region, std::move(copies),
                  [this, done = std::move(done)](Status copied) mutable {
                    // What was not there will not be there for the next copy, either.
                    if (copied.reason() == reasons::kMemoryFault) *own_.faulted = true;
                    done(std::move(copied), steps_);
                  });
}

}  // namespace onecopy::process
