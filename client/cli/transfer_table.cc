#include "client/cli/transfer_table.h"

#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

std::string Done(const TransferInfo& transfer) {
  // A stream is as long as what has come of it.
  if (transfer.bytes == 0 && transfer.bytes_done > 0) return FormatBytes(transfer.bytes_done);
  if (transfer.bytes == 0) return IsFinal(transfer.state) ? "100%" : "0%";
  const double share =
      static_cast<double>(transfer.bytes_done) / static_cast<double>(transfer.bytes);
  return std::to_string(static_cast<int>(share * 100)) + "%";
}

// Of what has moved; nothing has no rate.
std::string Rate(const TransferInfo& transfer, const std::map<TransferId, double>& rates) {
  if (IsFinal(transfer.state)) {
    const bool moved = transfer.state == TransferState::kSucceeded || transfer.bytes_done > 0;
    const double rate = transfer.receipt.bytes_per_second;
    return moved && rate > 0 ? FormatRate(rate) : "";
  }
  const auto known = rates.find(transfer.id);
  return known == rates.end() ? "" : FormatRate(known->second);
}

std::string PathOf(const TransferInfo& transfer) {
  if (!transfer.receipt.path.empty()) return transfer.receipt.path;
  return transfer.plan.has_value() ? transfer.plan->path : "";
}

std::string End(const Endpoint& end, const std::string& here) {
  if (here.empty()) return end.ToString();
  Endpoint shown = end;
  if (shown.node == here) shown.node.clear();
  shown.bytes.reset();
  if (shown.offset_bytes == 0U) shown.offset_bytes.reset();
  return shown.ToString();
}

}  // namespace

void PrintTransfers(std::ostream& out, const std::vector<TransferInfo>& transfers,
                    const TransferTable& options) {
  Table table({{"ID"},
               {.title = "STATE", .least = 9, .loses_end = true},
               {.title = "SOURCE", .least = 7},
               {.title = "DESTINATION", .least = 7},
               {.title = "SIZE", .align = Table::Align::kRight, .goes = 2},
               {"DONE", Table::Align::kRight},
               {"RATE", Table::Align::kRight},
               {.title = "PATH", .least = 8, .loses_end = true},
               {"LANES", Table::Align::kRight},
               {.title = "STARTED", .goes = 1}});
  for (const TransferInfo& transfer : transfers) {
    std::string state(StateName(transfer.state));
    const std::string& reason = transfer.error.reason();
    if (!transfer.error.ok() && !reason.empty() && reason != state) {
      state += " " + reason;
    }
    if (!transfer.waits_for.empty()) state += ", waits for " + Printable(transfer.waits_for);
    const size_t lanes = transfer.receipt.lanes.size();
    table.Add({transfer.id.str(), state, End(transfer.source, options.here),
               End(transfer.destination, options.here), FormatBytes(transfer.bytes), Done(transfer),
               Rate(transfer, options.rates), PathOf(transfer),
               lanes == 0 ? "" : std::to_string(lanes), FormatTime(transfer.create_time)});
  }
  table.Print(out, options.width);
}

}  // namespace onecopy::cli
