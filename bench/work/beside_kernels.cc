// Rates on GPUs that another process is using, as on every real machine: beside plain copies there.
#include "bench/daemons/process.h"
#include "bench/work/rates.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::seconds kStart{30};

// What must not wait for the compute engine, which the neighbour has: everything but copies within
// one GPU. Beside the same neighbour, a plain copy does not either.
std::vector<Rate> Rates() {
  std::vector<Rate> rates;
  for (Rate rate : AllRates()) {
    const bool gpu = rate.from == RateEnd::kGpu || rate.to == RateEnd::kGpu;
    if (!gpu || rate.make_ceiling == nullptr || rate.over_tcp()) continue;
    rate.work = "beside kernels, " + rate.work;
    rate.floor = 0.8;
    rate.targets = {{0, 0.9}};
    rates.push_back(std::move(rate));
  }
  return rates;
}

// The neighbour, a process of its own; it ends with the object.
Result<Process> StartNeighbour(const Settings& settings) {
  std::vector<std::string> arguments = {"load"};
  if (!settings.daemon.cuda_library.empty()) {
    arguments.insert(arguments.end(), {"--cuda", settings.daemon.cuda_library});
  }
  ONECOPY_ASSIGN_OR_RETURN(Process process,
                           Process::Start("/proc/self/exe", arguments, "/dev/null"));
  // Says "busy", or ends, for want of a GPU or of a driver that works.
  ONECOPY_RETURN_IF_ERROR(process.ReadLine(kStart).status());
  return process;
}

}  // namespace

std::vector<Row> BesideKernels(const Settings& settings) {
  const Row all = {.work = "beside kernels"};
  if (const auto api = shim::LoadCuda(settings.daemon.cuda_library); !api.ok()) {
    return {Waived(all, api.status())};
  }
  const Result<Process> neighbour = StartNeighbour(settings);
  if (!neighbour.ok()) return {Failed(all, neighbour.status())};
  return MeasureRates(Rates(), settings);
}

}  // namespace onecopy::bench
