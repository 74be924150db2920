#include "client/cli/probe_report.h"

#include <cmath>

#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

std::string Memory(const std::string& kind, const std::string& device) {
  return device.empty() ? kind : device;
}

std::string Microseconds(double seconds) {
  return std::to_string(std::lround(seconds * 1e6)) + " us";
}

}  // namespace

void PrintProbes(std::ostream& out, const std::vector<ProbeInfo>& probes,
                 const std::string& indent) {
  Table table({{"FROM"},
               {"MEMORY"},
               {"TO MEMORY"},
               {"LINK"},
               {"DEVICES"},
               {"RATE", Table::Align::kRight},
               {"LATENCY", Table::Align::kRight},
               {"PROBED"},
               {"WHY NOT"}});
  for (const ProbeInfo& probe : probes) {
    const bool ok = probe.viability.viable;
    std::string why = probe.viability.reason;
    if (!probe.viability.detail.empty()) why += ", " + probe.viability.detail;
    table.Add({probe.node, Memory(probe.source_memory, probe.source_device),
               Memory(probe.destination_memory, probe.destination_device), probe.link,
               probe.source_nic.empty() ? "all" : probe.source_nic + " > " + probe.destination_nic,
               ok ? FormatRate(probe.bytes_per_second) : "",
               ok ? Microseconds(probe.latency_seconds) : "", FormatTime(probe.time),
               ok ? "" : why});
  }
  if (indent.empty()) {
    table.Print(out);
  } else {
    table.PrintRows(out, indent);
  }
}

}  // namespace onecopy::cli
