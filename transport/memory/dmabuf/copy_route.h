// Copies by the processor, one end or both in a dma-buf.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/contracts/memory.h"
#include "transport/memory/dmabuf/imported.h"
#include "transport/os/memory/copy_threads.h"

namespace onecopy::dmabuf {

// The threads take a route's pieces in turns with those of other routes, each within its own
// bracket of coherence; completions run on the first thread.
class DmaBufCopyRoute final : public CopyRoute {
 public:
  struct End {
    RegionRef region;
    ImportedRef imported;  // null for host memory; else mapped
  };

  DmaBufCopyRoute(const std::string& node, End from, End to,
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
  Status CopyNow(const std::vector<StridedCopy>& copies) const;

  const End from_;
  const End to_;
  const StepList steps_;
  const std::shared_ptr<os::CopyThreads> threads_;
  Flow flow_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace onecopy::dmabuf
