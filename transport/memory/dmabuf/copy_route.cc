#include "transport/memory/dmabuf/copy_route.h"

#include <cassert>

#include "transport/os/copy_bytes.h"

namespace onecopy::dmabuf {
namespace {

Status Begin(const DmaBufCopyRoute::End& end, bool write) {
  return end.imported == nullptr ? OkStatus() : end.imported->BeginCpuAccess(write);
}

Status Finish(const DmaBufCopyRoute::End& end, bool write) {
  return end.imported == nullptr ? OkStatus() : end.imported->EndCpuAccess(write);
}

}  // namespace

DmaBufCopyRoute::DmaBufCopyRoute(const std::string& node, End from, End to, CopyThreads threads)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                               .from = from_.region->step_name(),
                                                               .to = to_.region->step_name(),
                                                               .by = "cpu"})),
      threads_(std::move(threads)) {}

void DmaBufCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  assert(from_offset <= from_.region->bytes() && bytes <= from_.region->bytes() - from_offset);
  assert(to_offset <= to_.region->bytes() && bytes <= to_.region->bytes() - to_offset);
  os::LoopThread& thread =
      *(*threads_)[next_thread_.fetch_add(1, std::memory_order_relaxed) % threads_->size()];
  thread.loop().Post([this, from_offset, to_offset, bytes, done = std::move(done)]() mutable {
    Status copied = CopyNow(from_offset, to_offset, bytes);
    if (executor().InThread()) return done(std::move(copied), steps_);
    executor().Post([this, done = std::move(done), copied = std::move(copied)]() mutable {
      done(std::move(copied), steps_);
    });
  });
}

Status DmaBufCopyRoute::CopyNow(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) const {
  if (bytes == 0) return OkStatus();
  ONECOPY_RETURN_IF_ERROR(Begin(from_, false));
  Status outcome = Begin(to_, true);
  if (outcome.ok()) {
    onecopy_copy_bytes(to_.address() + to_offset, from_.address() + from_offset, bytes);
    outcome = Finish(to_, true);
  }
  const Status read = Finish(from_, false);
  return outcome.ok() ? read : outcome;
}

}  // namespace onecopy::dmabuf
