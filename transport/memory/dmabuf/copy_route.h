// Copies by the processor, one end or both in a dma-buf.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/memory.h"
#include "transport/memory/dmabuf/imported.h"
#include "transport/os/event_loop.h"

namespace onecopy::dmabuf {

using CopyThreads = std::shared_ptr<std::vector<std::unique_ptr<os::LoopThread>>>;

// The pieces of one route are handed to the threads in turn, each within its own bracket of
// coherence; completions run on the first thread.
class DmaBufCopyRoute final : public CopyRoute {
 public:
  struct End {
    RegionRef region;
    ImportedRef imported;  // null for host memory; else mapped
  };

  DmaBufCopyRoute(const std::string& node, End from, End to, CopyThreads threads);

  void Copy(uint64_t from_offset, uint64_t to_offset, uint64_t bytes, Done done) override;
  void CopyMany(std::vector<StridedCopy> copies, Done done) override;
  const StepList& steps() const override { return steps_; }
  unsigned depth() const override { return 2 * static_cast<unsigned>(threads_->size()); }
  uint64_t chunk_bytes() const override { return uint64_t{4} << 20; }
  Executor& executor() override { return threads_->front()->loop(); }

 private:
  Status CopyNow(const std::vector<StridedCopy>& copies) const;

  const End from_;
  const End to_;
  const StepList steps_;
  const CopyThreads threads_;
  std::atomic<size_t> next_thread_{0};
};

}  // namespace onecopy::dmabuf
