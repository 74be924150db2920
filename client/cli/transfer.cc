#include <algorithm>
#include <memory>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "client/cli/output/time.h"
#include "client/cli/transfer_table.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

Status ListTransfers(Session& session) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto transfers, client.ListTransfers());
  if (session.json()) {
    Print(session.out(), ListToJson(transfers));
  } else {
    PrintTransfers(session.out(), transfers, {.width = OutputWidth()});
  }
  return OkStatus();
}

// What is known of one that has not arrived: nothing here is an estimate.
void PrintUnarrived(std::ostream& out, const TransferInfo& transfer) {
  const Receipt& receipt = transfer.receipt;
  out << Printable(transfer.source.ToString()) << " -> "
      << Printable(transfer.destination.ToString()) << '\n';
  out << "  moved     " << FormatBytes(transfer.bytes_done) << " of "
      << FormatBytes(transfer.bytes);
  if (transfer.bytes_done > 0 && receipt.seconds > 0) {
    out << " in " << FormatSeconds(receipt.seconds) << ", " << FormatRate(receipt.bytes_per_second);
  }
  out << '\n';
  if (!transfer.waits_for.empty()) {
    out << "  waits for " << Printable(transfer.waits_for) << '\n';
  }
  if (transfer.parts > 1) out << "  parts     " << transfer.parts << '\n';
  if (!transfer.trace.empty()) out << "  trace     " << transfer.trace.str() << '\n';
  if (transfer.plan.has_value()) PrintPlannedPath(out, *transfer.plan);
  for (const Attempt& attempt : receipt.attempts) {
    out << "  tried     " << Printable(attempt.path) << ": " << Printable(attempt.outcome)
        << " after " << FormatBytes(attempt.bytes) << '\n';
  }
}

void PrintTransfer(std::ostream& out, const TransferInfo& transfer) {
  out << "transfer " << Printable(transfer.id.str()) << ", " << StateName(transfer.state)
      << ", requested by  " << Printable(transfer.owner) << ", this node is the "
      << RoleName(transfer.role) << '\n';
  if (transfer.state == TransferState::kSucceeded) {
    PrintReceipt(out, MoveOf(transfer));
  } else {
    PrintUnarrived(out, transfer);
  }
  out << "  began     " << FormatTime(transfer.create_time) << '\n';
  if (transfer.end_time.has_value()) {
    const std::chrono::duration<double> took = *transfer.end_time - transfer.create_time;
    out << "  ended     " << FormatTime(*transfer.end_time) << ", after "
        << FormatSeconds(std::max(0.0, took.count())) << '\n';
  }
  if (!transfer.error.ok()) PrintError(out, transfer.error);
}

Status ShowTransfer(Session& session, const std::string& id) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer, client.GetTransfer(TransferId(id)));
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
  } else {
    PrintTransfer(session.out(), transfer);
  }
  return OkStatus();
}

Status Watch(Session& session, const std::string& id) {
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  const auto on_update = [&bar](const TransferInfo& transfer) {
    bar.Update(transfer.bytes_done, transfer.bytes);
  };
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer,
                           client.WatchTransfer(TransferId(id), on_update, interrupt.token()));
  bar.Clear();
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(transfer));
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
  } else if (!session.quiet()) {
    PrintReceipt(session.out(), MoveOf(transfer));
  }
  return OkStatus();
}

Status Cancel(Session& session, const std::string& id) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo transfer, client.CancelTransfer(TransferId(id)));
  if (!IsFinal(transfer.state)) {
    ONECOPY_ASSIGN_OR_RETURN(transfer, client.AwaitTransfer(transfer.id));
  }
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
  } else if (!session.quiet()) {
    session.out() << "transfer " << Printable(transfer.id.str()) << " is "
                  << StateName(transfer.state) << '\n';
  }
  return OkStatus();
}

}  // namespace

void AddTransfer(CLI::App& program, Command& chosen) {
  CLI::App* group = program.add_subcommand("transfer", "Transfers, running and recent");
  group->require_subcommand(1);
  auto id = std::make_shared<std::string>();

  CLI::App* list = group->add_subcommand("ls", "List your transfers, the newest first");
  list->footer("Example: onecopy transfer ls --json");
  list->callback([&chosen] { chosen = ListTransfers; });

  CLI::App* show = group->add_subcommand("show", "Show one transfer and its receipt");
  show->add_option("ID", *id, "Id from `transfer ls`")->required();
  show->footer("Example: onecopy transfer show 9f3c2a71d04be856");
  show->callback([id, &chosen] { chosen = [id](Session& s) { return ShowTransfer(s, *id); }; });

  CLI::App* watch =
      group->add_subcommand("watch", "Wait for the end of a transfer and print its receipt");
  watch->add_option("ID", *id, "Id from `transfer ls`")->required();
  watch->footer(
      "Example: onecopy transfer watch 9f3c2a71d04be856\n"
      "Exits with the status of `cp`. Ctrl-C ends the watching, not the transfer.");
  watch->callback([id, &chosen] { chosen = [id](Session& s) { return Watch(s, *id); }; });

  CLI::App* cancel =
      group->add_subcommand("cancel", "Cancel a transfer and wait until no more bytes move");
  cancel->add_option("ID", *id, "Id from `transfer ls`")->required();
  cancel->footer("Example: onecopy transfer cancel 9f3c2a71d04be856");
  cancel->callback([id, &chosen] { chosen = [id](Session& s) { return Cancel(s, *id); }; });
}

}  // namespace onecopy::cli
