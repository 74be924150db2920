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
  std::string name;  // of its rows, too, some of which say more after it
  std::function<std::vector<Row>(const Settings&)> run;
};

// In the order in which they run.
const std::vector<Work>& AllWorks();

// host_rates.cc
std::vector<Row> HostOverTcp(const Settings& settings);
std::vector<Row> HostInNode(const Settings& settings);
// gpu_rates.cc
std::vector<Row> GpuOverTcp(const Settings& settings);
std::vector<Row> GpuInNode(const Settings& settings);
// rdma_rates.cc
std::vector<Row> HostOverRdma(const Settings& settings);
std::vector<Row> HostOverUcx(const Settings& settings);
// rdma_losses.cc
std::vector<Row> RdmaAfterLosses(const Settings& settings);
// footprint.cc
std::vector<Row> DaemonMemory(const Settings& settings);
std::vector<Row> IdleCpu(const Settings& settings);
// ready.cc
std::vector<Row> ReadyTime(const Settings& settings);

}  // namespace onecopy::bench
