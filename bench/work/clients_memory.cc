// One copy between GPUs of memory that programs have made and registered: each kind, at both ends.
#include <algorithm>
#include <array>

#include "bench/work/gpus.h"
#include "bench/work/hold.h"
#include "bench/work/rate_ceilings.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

// Long enough for a copy's own speed to show.
constexpr uint64_t kMaxClientBytes = uint64_t{256} << 20;
constexpr uint64_t kOddOffset = (uint64_t{1} << 20) + 4099;

struct Kind {
  const char* name;
  std::optional<GpuMemoryKind> client;  // empty: the daemon's
  uint64_t offset = 0;                  // of the registered slice in its allocation
};
constexpr std::array<Kind, 5> kKinds = {{{"daemon's", {}},
                                         {"cudaMalloc", GpuMemoryKind::kMalloc},
                                         {"cudaMalloc slice", GpuMemoryKind::kMalloc, kOddOffset},
                                         {"cuMemCreate", GpuMemoryKind::kVmm},
                                         {"cuMemCreate slice", GpuMemoryKind::kVmm, kOddOffset}}};

Row RowOf(const Kind& from, const Kind& to, bool between_nodes, uint64_t bytes) {
  Row row = {.work = std::string("clients' gpu memory, ") + from.name + " to " + to.name,
             .path = "peer-direct",
             .bytes = bytes,
             .ceiling = "cuMemcpyPeerAsync-malloc"};
  if (between_nodes) row.work += ", between daemons";
  row.floor = 0.85;
  row.target = 0.95;
  return row;
}

std::vector<Row> MeasureAll(bool between_nodes, uint64_t bytes, const Settings& settings) {
  std::vector<Row> rows;
  const auto all = [&](const auto& measure) {
    for (const Kind& from : kKinds) {
      for (const Kind& to : kKinds) {
        if (!rows.empty() && settings.stopped && settings.stopped()) return;
        rows.push_back(measure(RowOf(from, to, between_nodes, bytes), from, to));
      }
    }
  };
  const auto none = [&](const Status& why) {
    const bool waived = why.code() == Code::kFailedPrecondition;
    all([&](Row row, const Kind&, const Kind&) {
      return waived ? Waived(std::move(row), why) : NotSetUp(std::move(row), why);
    });
    return std::move(rows);
  };
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  if (!environment.ok()) return none(environment.status());
  const auto gpus = UsableGpus(environment->here);
  if (!gpus.ok()) return none(gpus.status());
  if (const Status peers = CheckPeers(*gpus); !peers.ok()) return none(peers);
  const auto api = shim::LoadCuda(settings.daemon.cuda_library);
  if (!api.ok()) return none(api.status());
  RateSetting setting{.bytes = bytes};
  for (auto* gpu : {&setting.from, &setting.to}) {
    const auto opened = Gpu::Open(*api, (*gpus)[gpu == &setting.to ? 1 : 0].device);
    if (!opened.ok()) return none(opened.status());
    *gpu = *opened;
  }
  const auto memory = [&](const Kind& kind, const std::shared_ptr<Gpu>& gpu) {
    std::optional<ClientMemory> mine;
    if (kind.client) {
      mine = ClientMemory{gpu, *kind.client, kind.offset, settings.daemon.cuda_library};
    }
    return mine;
  };
  const MakeCeiling ceiling = [&](const Moved& warm_up) {
    return PeerMallocCeiling(setting, warm_up);
  };
  all([&](Row row, const Kind& from, const Kind& to) {
    const TransferParams params = {.from = environment->here,
                                   .from_memory = gpus->at(0).device,
                                   .to = between_nodes ? environment->there : environment->here,
                                   .to_memory = gpus->at(1).device,
                                   .path = "peer-direct",
                                   .from_client = memory(from, setting.from),
                                   .to_client = memory(to, setting.to)};
    return HoldTransfer(std::move(row), params, ceiling, settings).row;
  });
  return rows;
}

}  // namespace

std::vector<Row> ClientsGpuMemory(const Settings& settings) {
  const uint64_t bytes = std::min(settings.bytes, kMaxClientBytes);
  std::vector<Row> rows = MeasureAll(false, bytes, settings);
  for (Row& row : MeasureAll(true, bytes, settings)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace onecopy::bench
