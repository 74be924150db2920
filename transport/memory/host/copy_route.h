// Copies between two host memories.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/contracts/memory.h"
#include "transport/os/memory/copy_threads.h"

namespace onecopy::host {

// The threads take a route's pieces in turns with those of other routes; completions run on the
// first thread.
class HostCopyRoute final : public CopyRoute {
 public:
  HostCopyRoute(const std::string& node, RegionRef from, RegionRef to,
                std::shared_ptr<os::CopyThreads> threads);

  void SetFlow(const Flow& flow) override { flow_ = flow; }
  void Cancel() override;

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  unsigned depth() const override { return 2 * static_cast<unsigned>(threads_->size()); }
  uint64_t chunk_bytes() const override { return os::CopyThreads::kPieceBytes; }
  Executor& executor() override { return threads_->executor(); }

 private:
  // Runs `copy` when it is its turn, and `done` with what it says on the first thread.
  void InTurn(uint64_t cost, UniqueFunction<Status()> copy, Done done);
  void Refuse(Status why, Done done);

  const RegionRef from_;
  const RegionRef to_;
  const StepList steps_;
  const std::shared_ptr<os::CopyThreads> threads_;
  Flow flow_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace onecopy::host
