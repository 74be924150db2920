// The ceiling of copies between the GPUs of a node.
#pragma once

#include <memory>

#include "bench/ceiling/gpu.h"
#include "bench/measure/mover.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// cuMemcpyPeerAsync of all bytes on a stream of the source's GPU, timed from the call to the return
// of cuStreamSynchronize; several `copies` one after the other before that, of which the mean
// counts. Peer access is open in both directions. One thread at a time.
class PeerCopy final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const std::shared_ptr<Gpu>& from,
                                               const std::shared_ptr<Gpu>& to, GpuMemoryKind kind,
                                               uint64_t bytes, unsigned copies = 1);
  ~PeerCopy() override;

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  PeerCopy(std::shared_ptr<Gpu> from, std::shared_ptr<Gpu> to, unsigned copies)
      : from_(std::move(from)), to_(std::move(to)), copies_(copies) {}
  Status Begin(GpuMemoryKind kind, uint64_t bytes);
  // Ends the work under way on a stream.
  Status Wait(CUstream stream, CUresult submitted, const char* what) const;

  const std::shared_ptr<Gpu> from_;
  const std::shared_ptr<Gpu> to_;
  const unsigned copies_;
  os::Mapping host_;
  bool pinned_ = false;
  CUstream from_stream_ = nullptr;
  CUstream to_stream_ = nullptr;
  std::unique_ptr<GpuMemory> source_;
  std::unique_ptr<GpuMemory> destination_;
};

}  // namespace onecopy::bench
