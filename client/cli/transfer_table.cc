#include "client/cli/transfer_table.h"

#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "transport/core/size.h"

namespace onecopy::cli {
namespace {

std::string Done(const TransferInfo& transfer) {
  if (transfer.bytes == 0) return IsFinal(transfer.state) ? "100%" : "0%";
  const double share =
      static_cast<double>(transfer.bytes_done) / static_cast<double>(transfer.bytes);
  return std::to_string(static_cast<int>(share * 100)) + "%";
}

std::string Rate(const TransferInfo& transfer, const std::map<TransferId, double>& rates) {
  if (transfer.receipt.bytes_per_second > 0) return FormatRate(transfer.receipt.bytes_per_second);
  const auto known = rates.find(transfer.id);
  return known == rates.end() ? "" : FormatRate(known->second);
}

std::string PathOf(const TransferInfo& transfer) {
  if (!transfer.receipt.path.empty()) return transfer.receipt.path;
  return transfer.plan.has_value() ? transfer.plan->path : "";
}

}  // namespace

void PrintTransfers(std::ostream& out, const std::vector<TransferInfo>& transfers,
                    const std::map<TransferId, double>& rates) {
  Table table({{"ID"},
               {"STATE"},
               {"SOURCE"},
               {"DESTINATION"},
               {"SIZE", Table::Align::kRight},
               {"DONE", Table::Align::kRight},
               {"RATE", Table::Align::kRight},
               {"PATH"},
               {"LANES", Table::Align::kRight},
               {"STARTED"}});
  for (const TransferInfo& transfer : transfers) {
    std::string state(StateName(transfer.state));
    if (!transfer.error.ok() && !transfer.error.reason().empty()) {
      state += " " + transfer.error.reason();
    }
    const size_t lanes = transfer.receipt.lanes.size();
    table.Add({transfer.id.str(), state, transfer.source.ToString(),
               transfer.destination.ToString(), FormatBytes(transfer.bytes), Done(transfer),
               Rate(transfer, rates), PathOf(transfer), lanes == 0 ? "" : std::to_string(lanes),
               FormatTime(transfer.create_time)});
  }
  table.Print(out);
}

}  // namespace onecopy::cli
