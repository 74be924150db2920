// The ceilings with which the rates of paths are compared.
#pragma once

#include <memory>

#include "bench/ceiling/gpu.h"
#include "bench/measure/mover.h"

namespace onecopy::bench {

// What a ceiling may need to know of the work beside it.
struct RateSetting {
  uint64_t bytes = 0;
  unsigned copy_threads = 1;            // of a daemon, between host memories
  std::shared_ptr<Gpu> from = nullptr;  // null where that end is host memory
  std::shared_ptr<Gpu> to = nullptr;
  unsigned gpu_copies = 1;  // one after the other, of which the mean counts
};

using RateCeiling = Result<std::unique_ptr<Mover>> (*)(const RateSetting&, const Moved& warm_up);

// Each is null where what the warm-up did says that it would be no ceiling: sockets of loopback for
// bytes that left the machine.
Result<std::unique_ptr<Mover>> SocketsCeiling(const RateSetting&, const Moved& warm_up);
// The slower of sockets with reused buffers and the pinned copies of the ends that are GPUs.
Result<std::unique_ptr<Mover>> StagedCeiling(const RateSetting&, const Moved& warm_up);
Result<std::unique_ptr<Mover>> MemcpyCeiling(const RateSetting&, const Moved& warm_up);
// Pinned copies out of `from`, into `to`, or both together.
Result<std::unique_ptr<Mover>> PinnedCeiling(const RateSetting&, const Moved& warm_up);
Result<std::unique_ptr<Mover>> PeerVmmCeiling(const RateSetting&, const Moved& warm_up);
Result<std::unique_ptr<Mover>> PeerMallocCeiling(const RateSetting&, const Moved& warm_up);

}  // namespace onecopy::bench
