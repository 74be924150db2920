// All that the bench measures. Each starts daemons of its own, so that none finds what another one
// left behind. To add one: a function that gives rows, and a line in works.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/measure/row.h"
#include "bench/work/settings.h"

namespace onecopy::bench {

struct Work {
  std::string name;  // of its rows, too, some of which say more around it
  std::function<std::vector<Row>(const Settings&)> run;
  bool own_daemons = false;  // cannot use such as are given
};

// In the order in which they run.
const std::vector<Work>& AllWorks();

// scatter_rates.cc
std::vector<Row> ScatteredRanges(const Settings& settings);
std::vector<Row> ManyRanges(const Settings& settings);
std::vector<Row> StridedColumn(const Settings& settings);
// The rates of paths: rates.h
// direct_to_staged.cc
std::vector<Row> DirectToStaged(const Settings& settings);
// clients_memory.cc
std::vector<Row> ClientsGpuMemory(const Settings& settings);
// beside_kernels.cc
std::vector<Row> BesideKernels(const Settings& settings);
// registration.cc
std::vector<Row> Registration(const Settings& settings);
// pool.cc
std::vector<Row> PoolAllocation(const Settings& settings);
// first_byte.cc
std::vector<Row> FirstByte(const Settings& settings);
// ceiling_checks.cc
std::vector<Row> CeilingChecks(const Settings& settings);
// competitors.cc
std::vector<Row> Competitors(const Settings& settings);
// ingest.cc
std::vector<Row> Ingest(const Settings& settings);
// storage.cc
std::vector<Work> StorageWorks();
// storage_across.cc
std::vector<Work> StorageAcrossWorks();
// storage_direct.cc
std::vector<Work> StorageDirectWorks();
// storage_ranges.cc
std::vector<Row> StorageRanges(const Settings& settings);
// storage_to_each.cc
std::vector<Work> StorageToEachWorks();
// storage_memory.cc
std::vector<Row> SparseMemory(const Settings& settings);
// process_memory.cc
std::vector<Row> ProcessMemory(const Settings& settings);
// encrypted.cc
std::vector<Row> EncryptedHostToHost(const Settings& settings);
// rdma_rates.cc
std::vector<Row> HostOverRdma(const Settings& settings);
std::vector<Row> HostOverUcx(const Settings& settings);
// rdma_losses.cc
std::vector<Row> RdmaAfterLosses(const Settings& settings);
// small.cc
std::vector<Row> SmallHostInNode(const Settings& settings);
std::vector<Row> SmallGpuInNode(const Settings& settings);
std::vector<Row> SmallHostBetweenNodes(const Settings& settings);
std::vector<Row> SmallGpuBetweenNodes(const Settings& settings);
// footprint.cc
std::vector<Row> DaemonMemory(const Settings& settings);
std::vector<Row> IdleCpu(const Settings& settings);
// ready.cc
std::vector<Row> ReadyTime(const Settings& settings);

}  // namespace onecopy::bench
