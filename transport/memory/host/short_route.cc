#include "transport/memory/host/short_route.h"

#include <cassert>
#include <utility>
#include <vector>

#include "transport/os/copy_bytes.h"

namespace onecopy::host {

HostShortRoute::HostShortRoute(const std::string& node, RegionRef from, RegionRef to)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<ShortSteps>(std::make_shared<const std::vector<Step>>(
          1,
          Step{.node = node, .from = from_->step_name(), .to = to_->step_name(), .by = "cpu"}))) {}

Status HostShortRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  assert(from_offset <= from_->bytes() && bytes <= from_->bytes() - from_offset);
  assert(to_offset <= to_->bytes() && bytes <= to_->bytes() - to_offset);
  onecopy_copy_bytes(to_->address() + to_offset, from_->address() + from_offset, bytes);
  return OkStatus();
}

}  // namespace onecopy::host
