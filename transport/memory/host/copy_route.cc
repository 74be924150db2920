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
  OnNextThread(
      [this, from_offset, to_offset, bytes] {
        onecopy_copy_bytes(to_->address() + to_offset, from_->address() + from_offset, bytes);
      },
      std::move(done));
}

void HostCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  assert(AllInside(copies, from_->bytes(), to_->bytes()));
  OnNextThread(
      [this, copies = std::move(copies)] {
        for (const StridedCopy& copy : copies) {
          std::byte* const to = to_->address() + copy.to;
          const std::byte* const from = from_->address() + copy.from;
          if (copy.count == 1) {
            onecopy_copy_bytes(to, from, copy.bytes);
          } else {
            onecopy_copy_strided(to, copy.to_stride, from, copy.from_stride, copy.bytes,
                                 copy.count);
          }
        }
      },
      std::move(done));
}

void HostCopyRoute::OnNextThread(Task copy, Done done) {
  os::LoopThread& thread =
      *(*threads_)[next_thread_.fetch_add(1, std::memory_order_relaxed) % threads_->size()];
  thread.loop().Post([this, copy = std::move(copy), done = std::move(done)]() mutable {
    copy();
    if (executor().InThread()) return done(OkStatus(), steps_);
    executor().Post([this, done = std::move(done)]() mutable { done(OkStatus(), steps_); });
  });
}

}  // namespace onecopy::host
