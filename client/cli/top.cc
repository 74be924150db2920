#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "client/cli/transfer_table.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

constexpr auto kRefresh = std::chrono::seconds(1);

// Running ones first; the order is else kept.
void SortForTop(std::vector<TransferInfo>& transfers) {
  std::stable_partition(transfers.begin(), transfers.end(),
                        [](const TransferInfo& transfer) { return !IsFinal(transfer.state); });
}

void PrintSummary(std::ostream& out, const Client& client,
                  const std::vector<TransferInfo>& transfers,
                  const std::map<TransferId, double>& rates) {
  const auto running =
      std::count_if(transfers.begin(), transfers.end(),
                    [](const TransferInfo& transfer) { return !IsFinal(transfer.state); });
  double rate = 0;
  for (const auto& [id, one] : rates) rate += one;
  out << Printable(client.node()) << ": " << running << " running, "
      << transfers.size() - static_cast<size_t>(running) << " ended, " << FormatRate(rate)
      << "\n\n";
}

Status Live(Session& session, Client& client, const std::stop_token& stop) {
  std::map<TransferId, RateMeter> meters;
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    ONECOPY_ASSIGN_OR_RETURN(auto transfers, client.ListTransfers());
    const auto now = RateMeter::Clock::now();
    std::map<TransferId, double> rates;
    std::map<TransferId, RateMeter> kept;
    for (const TransferInfo& transfer : transfers) {
      if (IsFinal(transfer.state)) continue;
      RateMeter& meter = kept[transfer.id] = std::move(meters[transfer.id]);
      meter.Add(now, transfer.bytes_done);
      rates[transfer.id] = meter.bytes_per_second();
    }
    meters = std::move(kept);
    SortForTop(transfers);
    const size_t room = TerminalHeight() > 6 ? TerminalHeight() - 5 : 1;
    session.out() << "\x1b[H\x1b[2J";
    PrintSummary(session.out(), client, transfers, rates);
    if (transfers.size() > room) transfers.resize(room);
    PrintTransfers(session.out(), transfers, {rates, client.node(), OutputWidth()});
    session.out().flush();
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, kRefresh, [] { return false; });
  }
  session.out() << '\n';
  return OkStatus();
}

Status RunTop(Session& session) {
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  if (!session.json() && ::isatty(STDOUT_FILENO) == 1) {
    return Live(session, client, interrupt.token());
  }
  ONECOPY_ASSIGN_OR_RETURN(auto transfers, client.ListTransfers());
  SortForTop(transfers);
  if (session.json()) {
    Print(session.out(), ListToJson(transfers));
  } else {
    PrintSummary(session.out(), client, transfers, {});
    PrintTransfers(session.out(), transfers, {.here = client.node()});
  }
  return OkStatus();
}

}  // namespace

void AddTop(CLI::App& program, Command& chosen) {
  CLI::App* command =
      program.add_subcommand("top", "Show a live table of transfers, lanes and rates");
  command->footer(
      "Refreshes every second until Ctrl-C. Prints once with --json, or if standard output is not "
      "a terminal.\nExample: onecopy top");
  command->callback([&chosen] { chosen = RunTop; });
}

}  // namespace onecopy::cli
