#include "transport/memory/host/copy_route.h"

#include <cassert>

#include "transport/os/copy_bytes.h"

namespace onecopy::host {

HostCopyRoute::HostCopyRoute(const std::string& node, RegionRef from, RegionRef to,
                             CopyThreads threads)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<const std::vector<Step>>(
          1, Step{.node = node, .from = from_->step_name(), .to = to_->step_name(), .by = "cpu"})),
      threads_(std::move(threads)) {}

void HostCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  assert(from_offset <= from_->bytes() && bytes <= from_->bytes() - from_offset);
  assert(to_offset <= to_->bytes() && bytes <= to_->bytes() - to_offset);
  os::LoopThread& thread =
      *(*threads_)[next_thread_.fetch_add(1, std::memory_order_relaxed) % threads_->size()];
  thread.loop().Post([this, from_offset, to_offset, bytes, done = std::move(done)]() mutable {
    onecopy_copy_bytes(to_->address() + to_offset, from_->address() + from_offset, bytes);
    if (executor().InThread()) return done(OkStatus(), steps_);
    executor().Post([this, done = std::move(done)]() mutable { done(OkStatus(), steps_); });
  });
}

}  // namespace onecopy::host
