#include <memory>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "client/cli/output/time.h"
#include "client/cli/transfer_table.h"
#include "transport/core/size.h"

namespace onecopy::cli {
namespace {

Status List(Session& session) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const auto transfers, client.ListTransfers());
  if (session.json()) {
    Print(session.out(), ListToJson(transfers));
  } else {
    PrintTransfers(session.out(), transfers);
  }
  return OkStatus();
}

void PrintTransfer(std::ostream& out, const TransferInfo& transfer) {
  out << "transfer " << Printable(transfer.id.str()) << ", " << StateName(transfer.state);
  if (!IsFinal(transfer.state)) {
    out << ", " << FormatBytes(transfer.bytes_done) << " of " << FormatBytes(transfer.bytes);
  }
  out << ", ordered by " << Printable(transfer.owner) << ", this node is the "
      << RoleName(transfer.role) << '\n';
  if (transfer.state == TransferState::kSucceeded) {
    PrintReceipt(out, MoveOf(transfer));
  } else if (transfer.plan.has_value()) {
    PrintPlan(out, transfer.source.ToString(), transfer.destination.ToString(), *transfer.plan);
  } else {
    out << Printable(transfer.source.ToString()) << " -> "
        << Printable(transfer.destination.ToString()) << '\n';
  }
  if (!transfer.error.ok()) PrintError(out, transfer.error);
}

Status Show(Session& session, const std::string& id) {
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
  list->callback([&chosen] { chosen = List; });

  CLI::App* show = group->add_subcommand("show", "Show one transfer and its receipt");
  show->add_option("ID", *id, "As `transfer ls` shows it")->required();
  show->footer("Example: onecopy transfer show 1f3c-7");
  show->callback([id, &chosen] { chosen = [id](Session& s) { return Show(s, *id); }; });

  CLI::App* watch =
      group->add_subcommand("watch", "Wait for the end of a transfer and print its receipt");
  watch->add_option("ID", *id, "As `transfer ls` shows it")->required();
  watch->footer(
      "Example: onecopy transfer watch 1f3c-7\n"
      "Exits as `cp` would. Ctrl-C ends the watching, not the transfer.");
  watch->callback([id, &chosen] { chosen = [id](Session& s) { return Watch(s, *id); }; });

  CLI::App* cancel =
      group->add_subcommand("cancel", "Cancel a transfer and wait until nothing moves any more");
  cancel->add_option("ID", *id, "As `transfer ls` shows it")->required();
  cancel->footer("Example: onecopy transfer cancel 1f3c-7");
  cancel->callback([id, &chosen] { chosen = [id](Session& s) { return Cancel(s, *id); }; });
}

}  // namespace onecopy::cli
