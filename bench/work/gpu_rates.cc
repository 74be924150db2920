// GPU memory to GPU memory, between nodes and inside one.
#include <algorithm>

#include "bench/ceiling/peer_copy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/daemons/pair.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "transport/core/reasons.h"

namespace onecopy::bench {
namespace {

constexpr double kLeastOfPlainSockets = 0.5;
constexpr double kLeastOfPeerCopy = 0.9;
// The work's two windows, and the two ends of plain sockets or the pinned memory of the peer copy.
constexpr unsigned kPayloadsInMemory = 4;

// The GPUs that a daemon can use, as cuda:0, cuda:1 and so on; at least one. Else the reason why
// there is none.
Result<std::vector<MemoryCapability>> UsableGpus(const Daemon& daemon) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, daemon.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo node, client.GetNode());
  std::vector<MemoryCapability> gpus;
  Viability none = Viability::No(reasons::kNoGpu, "the daemon has no memory of kind cuda");
  if (node.capabilities) {
    for (const MemoryCapability& memory : node.capabilities->memories) {
      if (memory.kind != "cuda") continue;
      if (memory.viability.viable) {
        gpus.push_back(memory);
      } else {
        none = memory.viability;
      }
    }
  }
  if (gpus.empty()) {
    return Status(Code::kFailedPrecondition, none.reason, none.detail, none.remedy);
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  return gpus;
}

// Two GPUs of a daemon that reach each other, or why there are not.
Status CheckPeers(const std::vector<MemoryCapability>& gpus) {
  if (gpus.size() < 2) {
    return {Code::kFailedPrecondition, reasons::kNoGpu, "this needs two GPUs, and there is one"};
  }
  const auto& reached = gpus[0].direct_peers;
  if (std::find(reached.begin(), reached.end(), gpus[1].device) != reached.end()) {
    return OkStatus();
  }
  return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
          gpus[0].device + " does not reach the memory of " + gpus[1].device};
}

struct PeerCeiling {
  const char* name;
  GpuMemoryKind kind;
};

Row HoldAgainst(const PeerCeiling& ceiling, Row row, const Settings& settings) {
  const auto daemon = Daemon::Start(settings.daemon, "east");
  if (!daemon.ok()) return NotSetUp(row, daemon.status());
  const auto gpus = UsableGpus(**daemon);
  if (!gpus.ok()) return Waived(row, gpus.status());
  if (const Status peers = CheckPeers(*gpus); !peers.ok()) return Waived(row, peers);
  const auto api = shim::LoadCuda(settings.daemon.cuda_library);
  if (!api.ok()) return Failed(row, api.status());
  const auto from = Gpu::Open(*api, (*gpus)[0].device);
  if (!from.ok()) return Failed(row, from.status());
  const auto to = Gpu::Open(*api, (*gpus)[1].device);
  if (!to.ok()) return Failed(row, to.status());
  const auto work = MakeTransfer(
      {**daemon, (*gpus)[0].device, **daemon, (*gpus)[1].device, row.path}, settings.bytes);
  if (!work.ok()) return NotSetUp(row, work.status());
  const MakeCeiling same_gpus = [&](const Moved&) {
    return PeerCopy::Create(*from, *to, ceiling.kind, settings.bytes);
  };
  return Compare(std::move(row), **work, same_gpus, settings.compare());
}

}  // namespace

std::vector<Row> GpuOverTcp(const Settings& settings) {
  Row row = {.work = "tcp gpu to gpu",
             .path = "tcp-staged",
             .bytes = settings.bytes,
             .ceiling = "plain-sockets",
             .floor = kLeastOfPlainSockets};
  const Status room = CheckHostMemory(settings, kPayloadsInMemory);
  if (!room.ok()) return {NotSetUp(row, room)};
  const Result<Pair> pair = Pair::Start(settings.daemon);
  if (!pair.ok()) return {NotSetUp(row, pair.status())};
  const auto gpus = UsableGpus(*pair->east);
  if (!gpus.ok()) return {Waived(row, gpus.status())};
  const auto work = MakeTransfer({*pair->east, gpus->front().device, *pair->west,
                                  gpus->at(gpus->size() > 1 ? 1 : 0).device, row.path},
                                 settings.bytes);
  if (!work.ok()) return {NotSetUp(row, work.status())};
  const MakeCeiling same_lanes = [&](const Moved& warm_up) {
    return PlainSockets::Create(settings.bytes, warm_up.lanes);
  };
  return {Compare(std::move(row), **work, same_lanes, settings.compare())};
}

std::vector<Row> GpuInNode(const Settings& settings) {
  std::vector<Row> rows;
  for (const PeerCeiling& ceiling :
       {PeerCeiling{"cuMemcpyPeerAsync-vmm", GpuMemoryKind::kVmm},
        PeerCeiling{"cuMemcpyPeerAsync-malloc", GpuMemoryKind::kMalloc}}) {
    Row row = {.work = "peer gpu to gpu",
               .path = "peer-direct",
               .bytes = settings.bytes,
               .ceiling = ceiling.name,
               .floor = kLeastOfPeerCopy};
    const Status room = CheckHostMemory(settings, kPayloadsInMemory);
    rows.push_back(room.ok() ? HoldAgainst(ceiling, std::move(row), settings)
                             : NotSetUp(std::move(row), room));
  }
  return rows;
}

}  // namespace onecopy::bench
