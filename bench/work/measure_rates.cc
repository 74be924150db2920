// Measures what the table of rates says.
#include <algorithm>

#include "bench/daemons/process_facts.h"
#include "bench/work/cost_rows.h"
#include "bench/work/gpus.h"
#include "bench/work/hold.h"
#include "bench/work/rates.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

// Payloads that take long enough for a floor to mean something.
constexpr uint64_t kEvaluatedBytes = uint64_t{64} << 20;
// Of ceilings with several parts, the one that tells its CPU time.
constexpr const char* kCpuCeiling = "plain-sockets";

// The copying threads of a daemon, which its configuration takes from the number of cores.
Result<unsigned> CopyThreads(const Node& node) {
  if (!node.pid) return 1U;
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<ThreadUse> threads, ReadThreads(*node.pid));
  const auto count = std::count_if(threads.begin(), threads.end(), [](const ThreadUse& thread) {
    return thread.name.rfind("copy-", 0) == 0;
  });
  return static_cast<unsigned>(std::max<std::ptrdiff_t>(count, 1));
}

// One rate between the nodes of one environment, at any size.
class EnvironmentRate {
 public:
  static Result<EnvironmentRate> Begin(const Rate& rate, const Environment& environment,
                                       const Settings& settings) {
    EnvironmentRate at(rate, settings);
    at.params_ = {.from = environment.here,
                  .from_memory = "host",
                  .to = rate.between_nodes ? environment.there : environment.here,
                  .to_memory = "host",
                  .path = rate.path,
                  .link = rate.link};
    ONECOPY_RETURN_IF_ERROR(at.ChooseGpus());
    ONECOPY_ASSIGN_OR_RETURN(at.setting_.copy_threads, CopyThreads(environment.here));
    return at;
  }

  Compared Measure(Row row) {
    setting_.bytes = row.bytes;
    if (rate_.make_ceiling == MemcpyCeiling) row.details["threads"] = setting_.copy_threads;
    if (!rate_.against.empty()) return MeasureAgainst(std::move(row));
    const MakeCeiling make = [this](const Moved& warm_up) -> Result<std::unique_ptr<Mover>> {
      if (!has_ceiling_) return std::unique_ptr<Mover>();
      return rate_.make_ceiling(setting_, warm_up);
    };
    return HoldTransfer(std::move(row), params_, make, settings_);
  }

 private:
  EnvironmentRate(const Rate& rate, const Settings& settings)
      : rate_(rate), settings_(settings), has_ceiling_(rate.make_ceiling != nullptr) {}

  Compared MeasureAgainst(Row row) {
    TransferParams other = params_;
    other.path = rate_.against;
    other.link.clear();
    Result<std::unique_ptr<TransferMover>> ceiling = TransferMover::Create(other, row.bytes);
    if (!ceiling.ok()) return {.row = NotSetUp(std::move(row), ceiling.status())};
    if (const Status plan = (*ceiling)->Plan(); !plan.ok()) {
      return {.row = Waived(std::move(row), plan)};
    }
    const MakeCeiling make = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
      return std::unique_ptr<Mover>(std::move(*ceiling));
    };
    return HoldTransfer(std::move(row), params_, make, settings_);
  }

  // Which GPUs are the ends, and opens them for the ceiling.
  Status ChooseGpus() {
    const bool from_gpu = rate_.from == RateEnd::kGpu;
    const bool to_gpu = rate_.to == RateEnd::kGpu;
    if (!from_gpu && !to_gpu) return OkStatus();
    const bool two = from_gpu && to_gpu && !rate_.one_gpu;
    if (from_gpu) {
      ONECOPY_ASSIGN_OR_RETURN(params_.from_memory, Choose(params_.from, 0));
    }
    if (to_gpu) {
      ONECOPY_ASSIGN_OR_RETURN(params_.to_memory, Choose(params_.to, two ? 1 : 0));
    }
    if (two && rate_.path == "peer-direct") {
      ONECOPY_ASSIGN_OR_RETURN(const auto gpus, UsableGpus(params_.from));
      ONECOPY_RETURN_IF_ERROR(CheckPeers(gpus));
    }
    has_ceiling_ = has_ceiling_ && !params_.to.elsewhere;
    if (!has_ceiling_) return OkStatus();
    ONECOPY_ASSIGN_OR_RETURN(const CudaRef api, shim::LoadCuda(settings_.daemon.cuda_library));
    if (from_gpu) {
      ONECOPY_ASSIGN_OR_RETURN(setting_.from, Gpu::Open(api, params_.from_memory));
    }
    if (to_gpu) {
      ONECOPY_ASSIGN_OR_RETURN(setting_.to, Gpu::Open(api, params_.to_memory));
    }
    return OkStatus();
  }

  // The node's GPU of that number, or its first where it has fewer and a path between nodes does
  // not mind.
  Result<std::string> Choose(const Node& node, size_t number) const {
    ONECOPY_ASSIGN_OR_RETURN(const auto gpus, UsableGpus(node));
    if (number < gpus.size()) return gpus[number].device;
    if (!rate_.between_nodes || rate_.path == "peer-direct") return CheckPeers(gpus);
    return gpus[0].device;
  }

  const Rate& rate_;
  const Settings& settings_;
  bool has_ceiling_;
  TransferParams params_;
  RateSetting setting_;
};

Row RowOf(const Rate& rate, unsigned lanes, uint64_t bytes) {
  Row row = {.work = rate.work, .path = rate.path, .bytes = bytes, .ceiling = rate.ceiling};
  if (lanes > 0) row.work += ", " + std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes");
  if (bytes >= kEvaluatedBytes) row.floor = rate.floor;
  for (const auto& [least_bytes, target] : rate.targets) {
    if (bytes >= least_bytes) row.target = target;
  }
  return row;
}

std::vector<Row> MeasureOver(const Rate& rate, unsigned lanes, const Settings& settings) {
  DaemonOptions options = settings.daemon;
  if (lanes > 0) options.sections += "[tcp]\nlanes = " + std::to_string(lanes) + "\n";
  std::vector<Row> rows;
  const auto none = [&](Row (*as)(Row, const Status&), const Status& why) {
    for (const uint64_t bytes : settings.sizes) rows.push_back(as(RowOf(rate, lanes, bytes), why));
    if (rate.against.empty()) AddCostRows({.row = rows.back()}, kCpuCeiling, rows);
    return std::move(rows);
  };
  const Result<Environment> environment = Environment::Open(settings.given, options);
  if (!environment.ok()) return none(NotSetUp, environment.status());
  Result<EnvironmentRate> at = EnvironmentRate::Begin(rate, *environment, settings);
  if (!at.ok()) {
    return none(at.status().code() == Code::kFailedPrecondition ? Waived : NotSetUp, at.status());
  }
  Compared largest;
  for (const uint64_t bytes : settings.sizes) {
    // At least one row says what became of it.
    if (!rows.empty() && settings.stopped && settings.stopped()) break;
    Compared compared = at->Measure(RowOf(rate, lanes, bytes));
    rows.push_back(compared.row);
    if (largest.row.values.empty() || !compared.row.values.empty()) largest = std::move(compared);
  }
  if (rate.against.empty()) AddCostRows(largest, kCpuCeiling, rows);
  return rows;
}

}  // namespace

std::vector<Row> DirectToStaged(const Settings& settings) {
  return MeasureRates(DirectRates(), settings);
}

std::vector<Row> MeasureRates(const std::vector<Rate>& rates, const Settings& settings) {
  std::vector<Row> rows;
  for (const Rate& rate : rates) {
    for (const unsigned lanes : settings.lanes) {
      if (settings.stopped && settings.stopped()) return rows;
      for (Row& row : MeasureOver(rate, rate.over_tcp() ? lanes : 0, settings)) {
        rows.push_back(std::move(row));
      }
      if (!rate.over_tcp()) break;
    }
  }
  return rows;
}

}  // namespace onecopy::bench
