#include <unistd.h>

#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/move_options.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "client/cli/peer_notice.h"
#include "client/cli/time_option.h"
#include "transport/core/reasons.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

struct CpOptions {
  MoveOptions move;
  bool checksum = false;
  std::string deadline;
  bool dry_run = false;
  bool detach = false;
};

Result<Move> CopyBuffers(Client& client, const TransferRequest& request, ProgressBar& bar,
                         PeerNotice& notice, const std::stop_token& stop) {
  const auto on_update = [&](const TransferInfo& transfer) {
    bar.Update(transfer.bytes_done, transfer.bytes);
    notice.Progress(transfer.bytes_done);
  };
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer,
                           client.RunTransfer(request, on_update, stop));
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(transfer));
  return MoveOf(transfer);
}

Result<Move> CopyFile(Client& client, const MoveEnds& ends, const FileCopyOptions& options) {
  const bool from_file = ends.source.kind != Kind::kBuffer;
  auto copied = from_file ? CopyFileToBuffer(client, ToLocalFile(ends.source, true),
                                             ends.destination.ToEndpoint(), options)
                          : CopyBufferToFile(client, ends.source.ToEndpoint(),
                                             ToLocalFile(ends.destination, false), options);
  if (!copied.ok()) return copied.status();
  Move move;
  move.id = copied->id;
  move.parts = copied->windows;
  move.source = ends.source.typed;
  move.destination = ends.destination.typed;
  move.bytes = copied->bytes;
  move.receipt = std::move(copied->receipt);
  return move;
}

Status Detach(Session& session, Client& client, const TransferRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer, client.StartTransfer(request));
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
  } else if (session.quiet()) {
    session.out() << transfer.id.str() << '\n';
  } else {
    session.out() << "transfer " << transfer.id.str() << " started; `onecopy transfer watch "
                  << transfer.id.str() << "` shows how far it is\n";
  }
  return OkStatus();
}

Status DryRun(Session& session, Client& client, const MoveEnds& ends, const Policy& policy,
              const std::vector<RangePair>& ranges) {
  ONECOPY_ASSIGN_OR_RETURN(const Plan plan, PlanMove(client, ends, policy, ranges));
  if (session.json()) {
    Print(session.out(), PlanToJson(ends.source.typed, ends.destination.typed, plan));
  } else if (!session.quiet()) {
    PrintPlan(session.out(), ends.source.typed, ends.destination.typed, plan);
  }
  return OkStatus();
}

Status CheckOptions(const CpOptions& options, const MoveEnds& ends) {
  if (ends.destination.kind == Kind::kStream && !options.dry_run && ::isatty(STDOUT_FILENO) == 1) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "the bytes would go to this terminal",
            "redirect standard output: `onecopy cp … - > FILE`"};
  }
  const bool file = ends.source.kind != Kind::kBuffer || ends.destination.kind != Kind::kBuffer;
  if (options.detach && file) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--detach needs two buffers: a file is read and written by this process",
            "leave --detach out, or run it in the background with `&`"};
  }
  if (options.detach && options.dry_run) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--dry-run starts nothing that could be detached", "leave one of the two out"};
  }
  return OkStatus();
}

Status RunCp(Session& session, const CpOptions& options) {
  std::optional<std::chrono::milliseconds> deadline;
  if (!options.deadline.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(deadline, ParseTimeOption("--deadline", options.deadline));
  }
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(options.move));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  ONECOPY_RETURN_IF_ERROR(CheckOptions(options, ends));
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<RangePair> ranges, RangesOf(options.move, ends));
  if (ends.destination.kind == Kind::kStream && !options.dry_run) session.LeaveStdoutToPayload();
  const Policy& policy = options.move.policy;
  if (options.dry_run)
    return SuggestFile(DryRun(session, client, ends, policy, ranges), ends, client.node());
  TransferRequest request;
  request.ranges = ranges;
  request.source = ends.source.ToEndpoint();
  request.destination = ends.destination.ToEndpoint();
  request.policy = policy;
  request.checksum = options.checksum;
  request.deadline = deadline;
  if (options.detach) return SuggestFile(Detach(session, client, request), ends, client.node());

  PeerNotice notice(client, {ends.source, ends.destination}, session.err(), !session.quiet());
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  FileCopyOptions file_options;
  file_options.policy = policy;
  file_options.checksum = options.checksum;
  file_options.deadline = deadline;
  file_options.stop = interrupt.token();
  file_options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    bar.Update(done, total);
    notice.Progress(done);
  };
  const bool buffers = ends.source.kind == Kind::kBuffer && ends.destination.kind == Kind::kBuffer;
  auto move = buffers ? CopyBuffers(client, request, bar, notice, interrupt.token())
                      : CopyFile(client, ends, file_options);
  bar.Clear();
  if (!move.ok()) return SuggestFile(move.status(), ends, client.node());
  if (session.json()) {
    Print(session.out(), ToJson(*move));
  } else if (!session.quiet()) {
    PrintReceipt(session.out(), *move);
  }
  return OkStatus();
}

}  // namespace

void AddCp(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("cp", "Move bytes and print the receipt");
  auto options = std::make_shared<CpOptions>();
  AddMoveOptions(*command, options->move);
  command->add_flag("--checksum", options->checksum,
                    "Compare checksums of both ends after the bytes have arrived");
  command
      ->add_option("--deadline", options->deadline,
                   "Fail when it is not done after this time, as in --deadline 30s")
      ->type_name("TIME");
  command->add_flag("--dry-run", options->dry_run,
                    "Check everything and show the path; move nothing");
  command->add_flag("--detach", options->detach,
                    "Print the transfer's id and let it go on without this process");
  command->footer(R"(Examples:
  onecopy cp ./weights.bin west:weights          a file into a buffer on another node
  onecopy cp weights east:weights --checksum     from buffer to buffer, verified
  onecopy cp west:weights@0+4096 - | xxd | head  the beginning of a buffer
  tar c logs | onecopy cp - west:logs            a pipe into a buffer
  onecopy cp cache west:cache --ranges f.jsonl   many ranges in one transfer, a line for each:
    {"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": "1MiB", "bytes": "64KiB"}}
    {"source": {"offset": 8, "bytes": 4, "stride": 32, "count": 1000},
     "destination": {"offset": 0, "bytes": 4000}}   (a column: 1000 elements, one every 32 bytes)

Ctrl-C cancels the transfer and waits until nothing moves any more; a second one leaves at once.
A file is first written under another name beside it; a range of a file is written in place.
With - as DST the receipt goes to standard error.)");
  command->callback(
      [options, &chosen] { chosen = [options](Session& s) { return RunCp(s, *options); }; });
}

}  // namespace onecopy::cli
