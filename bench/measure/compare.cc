#include "bench/measure/compare.h"

#include <vector>

#include "bench/measure/statistics.h"
#include "transport/core/reasons.h"

namespace onecopy::bench {
namespace {

class Comparison {
 public:
  Comparison(Row row, Mover& work, const CompareOptions& options)
      : row_(std::move(row)), work_(work), options_(options) {}

  Status Run(const MakeCeiling& make_ceiling) {
    row_.verified = true;
    ONECOPY_ASSIGN_OR_RETURN(const Moved warm_up, Sample(work_));
    ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Mover> ceiling, make_ceiling(warm_up));
    ONECOPY_RETURN_IF_ERROR(Sample(*ceiling).status());
    if (warm_up.lanes > 0) row_.details["lanes"] = warm_up.lanes;
    for (unsigned i = 0; i < options_.samples; ++i) {
      const bool ceiling_first = i % 2 == 0;
      if (ceiling_first) ONECOPY_RETURN_IF_ERROR(TakeCeiling(*ceiling));
      ONECOPY_RETURN_IF_ERROR(TakeWork());
      if (!ceiling_first) ONECOPY_RETURN_IF_ERROR(TakeCeiling(*ceiling));
    }
    for (auto& [name, values] : details_) row_.details[name] = Summarise(values).median;
    return OkStatus();
  }

  Row& row() { return row_; }

 private:
  Status TakeWork() {
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, Sample(work_));
    row_.values.push_back(Rate(moved));
    for (const auto& [name, value] : moved.details) details_[name].push_back(value);
    return OkStatus();
  }

  Status TakeCeiling(Mover& ceiling) {
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, Sample(ceiling));
    row_.ceiling_values.push_back(Rate(moved));
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
    if (!right) row_.verified = false;
    return moved;
  }

  double Rate(const Moved& moved) const {
    return moved.seconds > 0 ? static_cast<double>(row_.bytes) / moved.seconds : 0;
  }

  Row row_;
  Mover& work_;
  const CompareOptions& options_;
  std::map<std::string, std::vector<double>> details_;
  uint64_t seed_ = 0;
};

}  // namespace

Row Compare(Row row, Mover& work, const MakeCeiling& make_ceiling, const CompareOptions& options) {
  Comparison comparison(std::move(row), work, options);
  const Status status = comparison.Run(make_ceiling);
  Row& result = comparison.row();
  if (status.ok()) return Judged(std::move(result));
  // Of a comparison that broke off, only whole pairs say something.
  const size_t pairs = std::min(result.values.size(), result.ceiling_values.size());
  result.values.resize(pairs);
  result.ceiling_values.resize(pairs);
  if (pairs == 0) result.verified.reset();
  return Failed(std::move(result), status);
}

}  // namespace onecopy::bench
