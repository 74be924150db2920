// The ceiling of small transfers between the GPUs of a node.
#pragma once

#include <memory>

#include "bench/ceiling/gpu.h"
#include "bench/ceiling/many.h"
#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// A cuMemcpyPeerAsync a piece, on a stream of the source's GPU, in memory of cuMemCreate: one by
// one with cuStreamSynchronize after each, or `depth` of them before each. One thread at a time.
class SmallPeerCopies final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const std::shared_ptr<Gpu>& from,
                                               const std::shared_ptr<Gpu>& to, const Many& many);
  ~SmallPeerCopies() override;

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  SmallPeerCopies(std::shared_ptr<Gpu> from, std::shared_ptr<Gpu> to, const Many& many)
      : from_(std::move(from)), to_(std::move(to)), many_(many) {}
  Status Begin();
  Status Copy(uint64_t offset) const;
  Status Wait() const;

  const std::shared_ptr<Gpu> from_;
  const std::shared_ptr<Gpu> to_;
  const Many many_;
  os::Mapping host_;
  CUstream stream_ = nullptr;
  std::unique_ptr<GpuMemory> source_;
  std::unique_ptr<GpuMemory> destination_;
};

}  // namespace onecopy::bench
