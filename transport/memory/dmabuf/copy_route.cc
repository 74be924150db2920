#include "transport/memory/dmabuf/copy_route.h"

#include "transport/os/memory/copy_regions.h"

namespace onecopy::dmabuf {
namespace {

Status Begin(const DmaBufCopyRoute::End& end, bool write) {
  return end.imported == nullptr ? OkStatus() : end.imported->BeginCpuAccess(write);
}

Status Finish(const DmaBufCopyRoute::End& end, bool write) {
  return end.imported == nullptr ? OkStatus() : end.imported->EndCpuAccess(write);
}

}  // namespace

DmaBufCopyRoute::DmaBufCopyRoute(const std::string& node, End from, End to,
                                 std::shared_ptr<os::CopyThreads> threads)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<const std::vector<Step>>(1, Step{.node = node,
                                                               .from = from_.region->step_name(),
                                                               .to = to_.region->step_name(),
                                                               .by = "cpu"})),
      threads_(std::move(threads)) {}

void DmaBufCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  CopyMany({{from_offset, to_offset, bytes, 0, 0, 1}}, std::move(done));
}

void DmaBufCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  if (Status wrong = CheckInside(copies, from_.region->bytes(), to_.region->bytes()); !wrong.ok()) {
    executor().Post([this, wrong = std::move(wrong), done = std::move(done)]() mutable {
      done(std::move(wrong), steps_);
    });
    return;
  }
  const uint64_t cost = CostOf(copies);
  auto task = [this, copies = std::move(copies), done = std::move(done)]() mutable {
    Status copied = cancelled_ ? CopyCancelled() : CopyNow(copies);
    if (executor().InThread()) return done(std::move(copied), steps_);
    executor().Post([this, done = std::move(done), copied = std::move(copied)]() mutable {
      done(std::move(copied), steps_);
    });
  };
  threads_->Copy(flow_, reinterpret_cast<uintptr_t>(this), cost, std::move(task));
}

void DmaBufCopyRoute::Cancel() {
  cancelled_ = true;
  threads_->RunNow(reinterpret_cast<uintptr_t>(this));
}

Status DmaBufCopyRoute::CopyNow(const std::vector<StridedCopy>& copies) const {
  if (copies.empty() || copies[0].bytes == 0) return OkStatus();
  ONECOPY_RETURN_IF_ERROR(Begin(from_, false));
  Status outcome = Begin(to_, true);
  if (outcome.ok()) {
    outcome = os::CopyRegions(*from_.region, *to_.region, copies);
    const Status written = Finish(to_, true);
    if (outcome.ok()) outcome = written;
  }
  const Status read = Finish(from_, false);
  return outcome.ok() ? read : outcome;
}

}  // namespace onecopy::dmabuf
