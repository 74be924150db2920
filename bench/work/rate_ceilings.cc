#include "bench/work/rate_ceilings.h"

#include <algorithm>
#include <vector>

#include "bench/ceiling/peer_copy.h"
#include "bench/ceiling/pinned_copy.h"
#include "bench/ceiling/plain_memcpy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/ceiling/slower_of.h"

namespace onecopy::bench {
namespace {

std::unique_ptr<Mover> None() { return nullptr; }

Result<std::unique_ptr<Mover>> Sockets(uint64_t bytes, const Moved& warm_up, bool reused) {
  return PlainSockets::Create(
      {.bytes = bytes, .lanes = std::max(warm_up.lanes, 1U), .reused = reused});
}

}  // namespace

Result<std::unique_ptr<Mover>> SocketsCeiling(const RateSetting& setting, const Moved& warm_up) {
  if (!warm_up.loopback) return None();
  return Sockets(setting.bytes, warm_up, false);
}

Result<std::unique_ptr<Mover>> StagedCeiling(const RateSetting& setting, const Moved& warm_up) {
  if (!warm_up.loopback) return None();
  std::vector<SlowerOf::Part> parts(1);
  parts[0].name = "plain_sockets";
  ONECOPY_ASSIGN_OR_RETURN(parts[0].mover, Sockets(setting.bytes, warm_up, true));
  if (setting.from || setting.to) {
    SlowerOf::Part pinned{"pinned_copies", nullptr};
    ONECOPY_ASSIGN_OR_RETURN(pinned.mover, PinnedCeiling(setting, warm_up));
    parts.push_back(std::move(pinned));
  }
  return std::unique_ptr<Mover>(std::make_unique<SlowerOf>(std::move(parts)));
}

Result<std::unique_ptr<Mover>> MemcpyCeiling(const RateSetting& setting, const Moved&) {
  return PlainMemcpy::Create(setting.bytes, setting.copy_threads);
}

Result<std::unique_ptr<Mover>> PinnedCeiling(const RateSetting& setting, const Moved&) {
  const PinnedWay way = !setting.to     ? PinnedWay::kToHost
                        : !setting.from ? PinnedWay::kFromHost
                                        : PinnedWay::kBoth;
  return PinnedCopy::Create(setting.from, setting.to, way, setting.bytes, setting.gpu_copies);
}

Result<std::unique_ptr<Mover>> PeerVmmCeiling(const RateSetting& setting, const Moved&) {
  return PeerCopy::Create(setting.from, setting.to, GpuMemoryKind::kVmm, setting.bytes,
                          setting.gpu_copies);
}

Result<std::unique_ptr<Mover>> PeerMallocCeiling(const RateSetting& setting, const Moved&) {
  return PeerCopy::Create(setting.from, setting.to, GpuMemoryKind::kMalloc, setting.bytes,
                          setting.gpu_copies);
}

}  // namespace onecopy::bench
