#include "bench/work/works.h"

#include <algorithm>

#include "bench/work/rates.h"

namespace onecopy::bench {
namespace {

// One work for each name in the table of rates.
std::vector<Work> RateWorks() {
  std::vector<Work> works;
  for (const Rate& rate : AllRates()) {
    const bool there = std::any_of(works.begin(), works.end(),
                                   [&](const Work& work) { return work.name == rate.work; });
    if (there) continue;
    works.push_back({rate.work, [name = rate.work](const Settings& settings) {
                       std::vector<Rate> rates;
                       for (const Rate& one : AllRates()) {
                         if (one.work == name) rates.push_back(one);
                       }
                       return MeasureRates(rates, settings);
                     }});
  }
  return works;
}

}  // namespace

const std::vector<Work>& AllWorks() {
  static const std::vector<Work> works = [] {
    std::vector<Work> all = RateWorks();
    const std::vector<Work> others = {
        {"process memory", ProcessMemory, true},
        {"encrypted host to host", EncryptedHostToHost, true},
        {"rdma host to host", HostOverRdma, true},
        {"ucx host to host", HostOverUcx, true},
        {"rdma after losses", RdmaAfterLosses, true},
        {"scattered 1,000 x 64 KiB", ScatteredRanges, true},
        {"scattered 131,072 x 16 KiB", ManyRanges, true},
        {"strided column", StridedColumn, true},
        {"direct to staged", DirectToStaged},
        {"clients' gpu memory", ClientsGpuMemory, true},
        {"beside kernels", BesideKernels, true},
        {"registration", Registration},
        {"pool allocate+free", PoolAllocation},
        {"first byte", FirstByte},
        {"ceiling check", CeilingChecks},
        {"competitor", Competitors, true},
        {"ingest", Ingest, true},
        {"small host in node", SmallHostInNode},
        {"small gpu in node", SmallGpuInNode},
        {"small host between nodes", SmallHostBetweenNodes},
        {"small gpu between nodes", SmallGpuBetweenNodes},
        {"daemon memory", DaemonMemory, true},
        {"idle cpu", IdleCpu, true},
        {"ready", ReadyTime, true},
    };
    all.insert(all.end(), others.begin(), others.end());
    for (Work& work : StorageWorks()) all.push_back(std::move(work));
    return all;
  }();
  return works;
}

}  // namespace onecopy::bench
