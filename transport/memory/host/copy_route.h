// Copies between two host memories.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/memory.h"
#include "transport/os/event_loop.h"

namespace onecopy::host {

using CopyThreads = std::shared_ptr<std::vector<std::unique_ptr<os::LoopThread>>>;

// The pieces of one route are handed to the threads in turn; completions run on the first one.
class HostCopyRoute final : public CopyRoute {
 public:
  HostCopyRoute(const std::string& node, RegionRef from, RegionRef to, CopyThreads threads);

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  unsigned depth() const override { return 2 * static_cast<unsigned>(threads_->size()); }
  uint64_t chunk_bytes() const override { return uint64_t{4} << 20; }
  Executor& executor() override { return threads_->front()->loop(); }

 private:
  // Runs `copy` on the next thread, and `done` with what it says on the first one.
  void OnNextThread(UniqueFunction<Status()> copy, Done done);
  void Refuse(Status why, Done done);

  const RegionRef from_;
  const RegionRef to_;
  const StepList steps_;
  const CopyThreads threads_;
  std::atomic<size_t> next_thread_{0};
};

}  // namespace onecopy::host
