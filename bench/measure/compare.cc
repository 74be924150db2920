#include "bench/measure/compare.h"

#include <algorithm>
#include <optional>

#include "bench/measure/statistics.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kCpuToReach = 1.1;  // of payloads whose rate is to reach something

class Comparison {
 public:
  Comparison(Row row, Mover& work, const CompareOptions& options)
      : result_{std::move(row), {}, {}}, work_(work), options_(options) {}

  Status Run(const MakeCeiling& make_ceiling) {
    row().verified = true;
    ONECOPY_ASSIGN_OR_RETURN(const Moved warm_up, Sample(work_));
    ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Mover> ceiling, make_ceiling(warm_up));
    if (ceiling == nullptr) {
      row().ceiling.clear();
      row().floor.reset();
      row().target.reset();
    } else {
      ONECOPY_RETURN_IF_ERROR(Sample(*ceiling).status());
    }
    if (warm_up.lanes > 0) row().details["lanes"] = warm_up.lanes;
    for (unsigned i = 0; i < options_.samples; ++i) {
      const bool ceiling_first = i % 2 == 0;
      if (ceiling && ceiling_first) ONECOPY_RETURN_IF_ERROR(TakeCeiling(*ceiling));
      ONECOPY_RETURN_IF_ERROR(TakeWork());
      if (ceiling && !ceiling_first) ONECOPY_RETURN_IF_ERROR(TakeCeiling(*ceiling));
    }
    for (auto& [name, values] : details_) row().details[name] = Summarise(values).median;
    return OkStatus();
  }

  Row& row() { return result_.row; }
  Compared& result() { return result_; }

 private:
  Status TakeWork() {
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, Sample(work_));
    row().values.push_back(Rate(moved));
    for (const auto& [name, value] : moved.details) details_[name].push_back(value);
    NoteCpu(moved, result_.cpu);
    return OkStatus();
  }

  Status TakeCeiling(Mover& ceiling) {
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, Sample(ceiling));
    row().ceiling_values.push_back(Rate(moved));
    for (const auto& [name, value] : moved.details) details_["ceiling_" + name].push_back(value);
    NoteCpu(moved, result_.ceiling_cpu);
    return OkStatus();
  }

  Result<Moved> Sample(Mover& mover) {
    if (options_.stopped && options_.stopped()) {
      return Status(Code::kCancelled, reasons::kCancelled, "the run was stopped");
    }
    ++seed_;
    ONECOPY_RETURN_IF_ERROR(mover.Fill(seed_));
    ONECOPY_ASSIGN_OR_RETURN(Moved moved, mover.Move());
    ONECOPY_ASSIGN_OR_RETURN(const bool right, mover.Verify(seed_));
    if (!right) row().verified = false;
    return moved;
  }

  double Rate(const Moved& moved) {
    return moved.seconds > 0 ? static_cast<double>(row().bytes) / moved.seconds : 0;
  }

  void NoteCpu(const Moved& moved, std::vector<double>& into) {
    if (!moved.cpu_seconds) return;
    into.push_back(*moved.cpu_seconds * kGigabyte / static_cast<double>(row().bytes));
  }

  Compared result_;
  Mover& work_;
  const CompareOptions& options_;
  std::map<std::string, std::vector<double>> details_;
  uint64_t seed_ = 0;
};

}  // namespace

Compared CompareWithCpu(Row row, Mover& work, const MakeCeiling& make_ceiling,
                        const CompareOptions& options) {
  Comparison comparison(std::move(row), work, options);
  const Status status = comparison.Run(make_ceiling);
  Compared& result = comparison.result();
  Row& measured = result.row;
  if (!result.cpu.empty()) {
    measured.details["cpu_seconds_per_gb"] = Summarise(result.cpu).median;
  }
  if (status.ok()) {
    measured = Evaluated(std::move(measured));
    return std::move(result);
  }
  // Of a comparison that broke off, only whole pairs say something.
  if (!measured.ceiling.empty()) {
    const size_t pairs = std::min(measured.values.size(), measured.ceiling_values.size());
    measured.values.resize(pairs);
    measured.ceiling_values.resize(pairs);
  }
  if (measured.values.empty()) measured.verified.reset();
  measured = Failed(std::move(measured), status);
  return std::move(result);
}

Row CpuRow(const Compared& compared, const std::string& ceiling) {
  Row row = {.work = "cpu " + compared.row.work,
             .path = compared.row.path,
             .bytes = compared.row.bytes,
             .unit = Unit::kSecondsPerGigabyte};
  row.verified = compared.row.verified;
  if (auto lanes = compared.row.details.find("lanes"); lanes != compared.row.details.end()) {
    row.details["lanes"] = lanes->second;
  }
  if (compared.row.values.empty()) {
    row.status = compared.row.status;
    row.reason = compared.row.reason;
    row.detail = compared.row.detail;
    return row;
  }
  row.values = compared.cpu;
  if (compared.cpu.empty()) {
    return Waived(std::move(row), {Code::kFailedPrecondition, reasons::kNotApplicable,
                                   "the CPU time of running daemons (--peer) is not measured"});
  }
  if (compared.ceiling_cpu.size() == compared.cpu.size()) {
    row.ceiling = ceiling;
    row.ceiling_values = compared.ceiling_cpu;
    if (compared.row.target) row.target = kCpuToReach;
  }
  return Evaluated(std::move(row));
}

}  // namespace onecopy::bench
