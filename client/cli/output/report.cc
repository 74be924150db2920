#include "client/cli/output/report.h"

#include <algorithm>

#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

std::string Plural(uint64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string PathLine(const std::string& path, uint64_t copies, const std::string& link,
                     bool emulated) {
  std::string line = path.empty() ? "-" : path;
  line += ", " + Plural(copies, "copy", "copies");
  if (!link.empty()) line += ", link " + link;
  if (emulated) line += ", emulated";
  return Printable(line);
}

std::string How(const Step& step) {
  return step.by + (step.loopback ? ", loopback" : "") + (step.emulated ? ", emulated" : "");
}

// `bytes` absent: not moved yet. A step's bytes are shown only where not all went through it.
void PrintSteps(std::ostream& out, const std::vector<ExecutedStep>& steps, uint64_t total) {
  Table table({{"", Table::Align::kRight}, {""}, {""}, {""}, {""}});
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i].step;
    table.Add({std::to_string(i + 1), step.from + " -> " + step.to, How(step),
               step.node.empty() ? "" : "on " + step.node,
               steps[i].bytes == total ? " " : FormatBytes(steps[i].bytes)});
  }
  table.PrintRows(out, "    ");
}

void PrintLanes(std::ostream& out, const std::vector<LaneBytes>& lanes) {
  if (lanes.empty()) return;
  uint64_t bytes = 0;
  std::vector<std::string> ways;
  for (const LaneBytes& lane : lanes) {
    bytes += lane.bytes;
    const std::string way = lane.device + " to " + lane.peer;
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  }
  std::string line = Plural(lanes.size(), "lane", "lanes") + ", " + FormatBytes(bytes) + ", ";
  for (size_t i = 0; i < ways.size(); ++i) line += (i == 0 ? "" : "; ") + ways[i];
  out << "  lanes     " << Printable(line) << '\n';
}

bool IsWorse(const Refusal& refusal) {
  return refusal.reason == reasons::kMoreCopies || refusal.reason == reasons::kNotApplicable;
}

// Paths that are refused for the very same reason, in one entry with all their names.
std::vector<Refusal> Grouped(const std::vector<Refusal>& refusals) {
  std::vector<Refusal> groups;
  for (const Refusal& refusal : refusals) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Refusal& group) {
      return group.reason == refusal.reason && group.detail == refusal.detail &&
             group.remedy == refusal.remedy;
    });
    if (same == groups.end()) {
      groups.push_back(refusal);
    } else {
      same->path += ", " + refusal.path;
    }
  }
  return groups;
}

}  // namespace

void PrintReceipt(std::ostream& out, const Move& move) {
  const Receipt& receipt = move.receipt;
  out << Printable(move.source) << " -> " << Printable(move.destination) << '\n';
  if (move.proven_bytes) {
    out << "  proven    " << FormatBytes(*move.proven_bytes)
        << " were there already, by checksums of their blocks\n";
    if (move.id.str().empty()) {
      out << "  moved     nothing\n";
      return;
    }
  }
  out << "  moved     " << FormatBytes(move.bytes) << " in " << FormatSeconds(receipt.seconds)
      << ", " << FormatRate(receipt.bytes_per_second);
  // The client waited longer than the bytes moved.
  if (receipt.asked_seconds > 1.1 * receipt.seconds) {
    out << "; " << FormatSeconds(receipt.asked_seconds) << " after the request";
  }
  out << '\n';
  if (move.parts > 1) out << "  parts     " << move.parts << '\n';
  if (receipt.ranges > 1) {
    out << "  ranges    " << receipt.ranges;
    if (receipt.merged_ranges < receipt.ranges) out << ", joined to " << receipt.merged_ranges;
    out << '\n';
  }
  out << "  path      " << PathLine(receipt.path, receipt.copies(), receipt.link, receipt.emulated)
      << '\n';
  PrintSteps(out, receipt.steps, move.bytes);
  PrintLanes(out, receipt.lanes);
  if (receipt.encryption != "none") out << "  encrypted " << Printable(receipt.encryption) << '\n';
  if (receipt.checksum.has_value()) {
    out << "  checksum  " << Printable(receipt.checksum->algorithm) << ' '
        << Printable(receipt.checksum->value)
        << (receipt.checksum->verified ? ", equal at both ends" : ", not verified") << '\n';
  }
  if (!move.trace.empty()) out << "  trace     " << move.trace.str() << '\n';
  if (receipt.attempts.size() > 1) {
    for (const Attempt& attempt : receipt.attempts) {
      out << "  tried     " << Printable(attempt.path) << ": " << Printable(attempt.outcome)
          << " after " << FormatBytes(attempt.bytes) << '\n';
    }
  }
  std::vector<Refusal> better;
  std::copy_if(receipt.refused.begin(), receipt.refused.end(), std::back_inserter(better),
               [](const Refusal& refusal) { return !IsWorse(refusal); });
  if (better.empty()) return;
  out << "  why nothing better\n";
  PrintRefusals(out, better);
}

namespace {

// What the estimate rests on.
std::string Basis(const Plan& plan) {
  if (!plan.measured) return ", from a table";
  const uint32_t transfers = plan.measured_transfers;
  const std::string when = FormatTime(plan.measure_time);
  std::string basis = ", measured by ";
  basis += transfers == 0
               ? "a probe"
               : std::to_string(transfers) + (transfers == 1 ? " transfer" : " transfers");
  return when.empty() ? basis : basis + (transfers > 1 ? ", the last " : ", ") + when;
}

}  // namespace

void PrintPlan(std::ostream& out, const std::string& source, const std::string& destination,
               const Plan& plan) {
  out << Printable(source) << " -> " << Printable(destination) << '\n';
  PrintPlannedPath(out, plan);
  if (plan.estimated_bytes_per_second > 0) {
    out << "  estimate  " << FormatRate(plan.estimated_bytes_per_second) << Basis(plan) << '\n';
  }
  if (!plan.placement.empty()) out << "  placement " << Printable(plan.placement) << '\n';
  if (plan.refused.empty()) return;
  out << "  why no other path\n";
  PrintRefusals(out, plan.refused);
}

void PrintPlannedPath(std::ostream& out, const Plan& plan) {
  out << "  path      " << PathLine(plan.path, plan.copies(), plan.link, false) << '\n';
  std::vector<ExecutedStep> steps;
  for (const Step& step : plan.steps) steps.push_back({step, 0});
  PrintSteps(out, steps, 0);
}

void PrintRefusals(std::ostream& out, const std::vector<Refusal>& refusals) {
  const std::vector<Refusal> grouped = Grouped(refusals);
  size_t path_width = 0;
  size_t reason_width = 0;
  for (const Refusal& refusal : grouped) {
    path_width = std::max(path_width, DisplayWidth(Printable(refusal.path)));
    reason_width = std::max(reason_width, DisplayWidth(Printable(refusal.reason)));
  }
  const auto padded = [](const std::string& text, size_t width) {
    const std::string shown = Printable(text);
    return shown + std::string(width - DisplayWidth(shown), ' ');
  };
  for (const Refusal& refusal : grouped) {
    std::string line = "    " + padded(refusal.path, path_width) + "  " +
                       padded(refusal.reason, reason_width) + "  " + Printable(refusal.detail);
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
    if (!refusal.remedy.empty()) out << "      try: " << Printable(refusal.remedy) << '\n';
  }
}

void PrintError(std::ostream& err, const Status& error) {
  err << "onecopy: " << Printable(error.message());
  if (!error.reason().empty()) err << " [" << Printable(error.reason()) << "]";
  err << '\n';
  if (!error.remedy().empty()) err << "  try: " << Printable(error.remedy()) << '\n';
  if (!error.refusals().empty()) {
    err << "  why each path was refused\n";
    PrintRefusals(err, error.refusals());
  }
}

}  // namespace onecopy::cli
