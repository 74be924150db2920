// The ceiling of copies between a GPU and host memory.
#pragma once

#include <memory>

#include "bench/ceiling/gpu.h"
#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

enum class PinnedWay {
  kToHost,    // out of GPU memory
  kFromHost,  // into GPU memory
  kBoth,      // both at once, each of them all of the bytes
};

// One asynchronous copy of all bytes between memory of a GPU and pinned host memory, and the wait
// for its stream; in kBoth one of each on streams of their own, out of `from` and into `to`.
// Several `copies` are one after the other before the wait, and the mean counts. One thread at a
// time.
class PinnedCopy final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const std::shared_ptr<Gpu>& from,
                                               const std::shared_ptr<Gpu>& to, PinnedWay way,
                                               uint64_t bytes, unsigned copies = 1);
  ~PinnedCopy() override;

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  // GPU memory with pinned memory of its size beside it.
  struct Half {
    std::shared_ptr<Gpu> gpu;
    os::Mapping host = {};
    bool pinned = false;
    CUstream stream = nullptr;
    std::unique_ptr<GpuMemory> memory = {};

    explicit Half(std::shared_ptr<Gpu> of) : gpu(std::move(of)) {}
    ~Half();
    Half(const Half&) = delete;
    Half& operator=(const Half&) = delete;
    Status Begin(uint64_t bytes);
    Status Submit(bool to_host) const;
    Status Wait() const;
  };
  explicit PinnedCopy(unsigned copies) : copies_(copies) {}

  const unsigned copies_;
  std::unique_ptr<Half> to_host_;    // in kToHost and kBoth
  std::unique_ptr<Half> from_host_;  // in kFromHost and kBoth
};

}  // namespace onecopy::bench
