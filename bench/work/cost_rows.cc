#include "bench/work/cost_rows.h"

namespace onecopy::bench {

void AddCostRows(const Compared& largest, const std::string& cpu_ceiling, std::vector<Row>& rows) {
  rows.push_back(CpuRow(largest, cpu_ceiling));
  Row traffic = {.work = "host memory traffic (computed) " + largest.row.work,
                 .path = largest.row.path,
                 .bytes = largest.row.bytes,
                 .unit = Unit::kBytesPerByte,
                 .verified = largest.row.verified,
                 .status = largest.row.status,
                 .reason = largest.row.reason,
                 .detail = largest.row.detail};
  const auto computed = largest.row.details.find("computed_host_memory_bytes_per_byte");
  if (computed != largest.row.details.end()) {
    traffic.values = {computed->second};
    traffic.details = {{"copies", largest.row.details.at("copies")}};
    traffic.status = RowStatus::kOk;
    traffic.reason.clear();
    traffic.detail = "computed from the steps of the receipt, not counted";
  }
  rows.push_back(std::move(traffic));
}

}  // namespace onecopy::bench
