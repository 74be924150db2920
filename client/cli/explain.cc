#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/move_options.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/report.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

Status RunExplain(Session& session, const MoveOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(options));
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  ONECOPY_ASSIGN_OR_RETURN(const RangeList ranges, RangesOf(options, ends));
  FileCopyOptions copy;
  copy.policy = options.policy;
  copy.ranges = ranges.ranges;
  copy.write_device = true;  // nothing is written
  const auto plan = PlanMove(client, ends, copy, ranges);
  if (!plan.ok()) {
    const Status status = Suggest(plan.status(), ends, client);
    if (status.refusals().empty() || session.json()) return status;
    // The refusals are the answer to the question; the error is only its outcome.
    session.out() << Printable(ends.source.typed) << " -> " << Printable(ends.destination.typed)
                  << "\n  path      none\n  why no path\n";
    PrintRefusals(session.out(), status.refusals());
    return status.WithRefusals({});
  }
  if (session.json()) {
    Print(session.out(), PlanToJson(ends.source.typed, ends.destination.typed, *plan));
  } else {
    PrintPlan(session.out(), ends.source.typed, ends.destination.typed, *plan);
  }
  return OkStatus();
}

}  // namespace

void AddExplain(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand(
      "explain", "Show the path that a copy would take, and why each better path is rejected");
  auto options = std::make_shared<MoveOptions>();
  AddMoveOptions(*command, *options);
  command->footer(R"(Examples:
  onecopy explain weights west:weights
  onecopy explain weights west:weights --at-most 1
  onecopy explain cache west:cache --ranges blocks.jsonl

If no path meets the policy, prints the reason for each path and exits with status 7.)");
  command->callback(
      [options, &chosen] { chosen = [options](Session& s) { return RunExplain(s, *options); }; });
}

}  // namespace onecopy::cli
