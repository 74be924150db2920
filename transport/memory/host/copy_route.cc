#include "transport/memory/host/copy_route.h"

#include "transport/core/ranges/scatter.h"
#include "transport/os/memory/copy_regions.h"

namespace onecopy::host {

HostCopyRoute::HostCopyRoute(const std::string& node, RegionRef from, RegionRef to,
                             std::shared_ptr<os::CopyThreads> threads)
    : from_(std::move(from)),
      to_(std::move(to)),
      steps_(std::make_shared<const std::vector<Step>>(
          1, Step{.node = node, .from = from_->step_name(), .to = to_->step_name(), .by = "cpu"})),
      threads_(std::move(threads)) {}

void HostCopyRoute::Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) {
  const StridedCopy copy{.from = from_offset, .to = to_offset, .bytes = bytes};
  if (Status wrong = CheckInside({&copy, 1}, from_->bytes(), to_->bytes()); !wrong.ok()) {
    return Refuse(std::move(wrong), std::move(done));
  }
  InTurn(
      bytes,
      [this, copy] {
        return os::CopyRegions(*from_, *to_, {&copy, 1});
      },
      std::move(done));
}

void HostCopyRoute::CopyMany(std::vector<StridedCopy> copies, Done done) {
  if (Status wrong = CheckInside(copies, from_->bytes(), to_->bytes()); !wrong.ok()) {
    return Refuse(std::move(wrong), std::move(done));
  }
  const uint64_t cost = CostOf(copies);
  InTurn(
      cost, [this, copies = std::move(copies)] { return os::CopyRegions(*from_, *to_, copies); },
      std::move(done));
}

void HostCopyRoute::Cancel() {
  cancelled_ = true;
  threads_->RunNow(reinterpret_cast<uintptr_t>(this));
}

void HostCopyRoute::Refuse(Status why, Done done) {
  executor().Post([this, why = std::move(why), done = std::move(done)]() mutable {
    done(std::move(why), steps_);
  });
}

void HostCopyRoute::InTurn(uint64_t cost, UniqueFunction<Status()> copy, Done done) {
  auto task = [this, copy = std::move(copy), done = std::move(done)]() mutable {
    Status copied = cancelled_ ? CopyCancelled() : copy();
    if (executor().InThread()) return done(std::move(copied), steps_);
    executor().Post([this, copied = std::move(copied), done = std::move(done)]() mutable {
      done(std::move(copied), steps_);
    });
  };
  threads_->Copy(flow_, reinterpret_cast<uintptr_t>(this), cost, std::move(task));
}

}  // namespace onecopy::host
