#include "client/cli/node_report.h"

#include <algorithm>
#include <cmath>

#include "client/cli/output/escape.h"
#include "client/cli/output/table.h"
#include "client/cli/output/time.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

void PrintItem(std::ostream& out, const std::string& indent, const std::string& name,
               const std::string& facts, const Viability& viability) {
  out << indent << Printable(name) << (facts.empty() ? "" : "  " + Printable(facts)) << '\n';
  if (viability.viable) {
    out << indent << "  usable\n";
    return;
  }
  out << indent << "  not usable: " << Printable(viability.reason);
  if (!viability.detail.empty()) out << ", " << Printable(viability.detail);
  out << '\n';
  if (!viability.remedy.empty()) out << indent << "  try: " << Printable(viability.remedy) << '\n';
}

void Append(std::string& text, const std::string& more) {
  if (more.empty()) return;
  text += (text.empty() ? "" : ", ") + more;
}

std::string Attributes(const std::map<std::string, std::string>& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) Append(text, name + " " + value);
  return text;
}

void PrintMemory(std::ostream& out, const MemoryCapability& memory) {
  std::string name = memory.kind;
  if (memory.ordinal >= 0) name += ":" + std::to_string(memory.ordinal);
  std::string facts = memory.name;
  Append(facts, memory.device);
  Append(facts, memory.address.empty() ? "" : "PCI " + memory.address);
  Append(facts, memory.total_bytes == 0 ? "" : FormatBytes(memory.total_bytes));
  Append(facts, Attributes(memory.attributes));
  PrintItem(out, "  ", name, facts, memory.viability);
  for (const std::string& peer : memory.direct_peers) {
    const auto& nvlink = memory.nvlink_peers;
    const bool joined = std::find(nvlink.begin(), nvlink.end(), peer) != nvlink.end();
    out << "    reaches " << Printable(peer) << (joined ? " by NVLink\n" : " directly\n");
  }
}

void PrintNic(std::ostream& out, const NicCapability& nic) {
  std::string facts = nic.address;
  Append(facts,
         nic.bytes_per_second == 0 ? "" : FormatRate(static_cast<double>(nic.bytes_per_second)));
  Append(facts, nic.fabric.empty() ? "" : "fabric " + nic.fabric);
  Append(facts, nic.emulated ? "emulated" : "");
  PrintItem(out, "    ", nic.name, facts, nic.viability);
  for (const NicMemory& memory : nic.memories) {
    const std::string name =
        "reads and writes " + memory.kind + (memory.device.empty() ? "" : " " + memory.device);
    PrintItem(out, "      ", name, "", memory.viability);
  }
}

void PrintLink(std::ostream& out, const LinkCapability& link) {
  std::string facts = link.version.empty() ? "" : "version " + link.version;
  Append(facts, Attributes(link.attributes));
  PrintItem(out, "  ", link.name, facts, link.viability);
  for (const NicCapability& nic : link.nics) PrintNic(out, nic);
}

std::string MemoryText(const std::string& kind, const std::string& device, bool staged) {
  return (device.empty() ? kind : device) + (staged ? ", staged" : "");
}

void PrintRates(std::ostream& out, const NodeInfo& node) {
  if (!node.path_rates.empty()) {
    out << "transfers " << (node.self ? "inside it" : "from it")
        << ", the median of the last ones\n";
    Table table({{""}, {""}, {""}, {""}, {""}, {""}, {""}, {""}});
    table.Add({"path", "link", "from", "to", "of at least", "rate", "transfers", "last"});
    for (const PathRateInfo& rate : node.path_rates) {
      table.Add(
          {rate.path, rate.link,
           MemoryText(rate.source_memory, rate.source_device, rate.source_staged),
           MemoryText(rate.destination_memory, rate.destination_device, rate.destination_staged),
           FormatBytes(rate.least_bytes), FormatRate(rate.bytes_per_second),
           std::to_string(rate.transfers), FormatTime(rate.time)});
    }
    table.PrintRows(out, "  ");
  }
  for (const std::string& address : node.silent_addresses) {
    out << "  does not answer at " << Printable(address) << "; its other addresses carry all\n";
  }
  if (node.slow_transfers > 0) {
    out << "  transfers far slower than measured before:  " << node.slow_transfers << '\n';
  }
}

}  // namespace

void PrintTopology(std::ostream& out, const NodeCapability& node) {
  const Topology& topology = node.topology;
  if (topology.devices.empty()) {
    out << "topology\n  no GPU, RDMA device or NVMe drive found\n";
    return;
  }
  out << "topology, by " << Printable(topology.source) << '\n';
  if (topology.virtual_machine) {
    out << "  a virtual machine: these distances are its claims, and onecopy does not rely on "
           "them\n";
  }
  std::vector<std::vector<std::string>> rows = MatrixRows(topology);
  for (size_t i = 1; i < rows.size(); ++i) {
    const TopologyDevice& device = topology.devices[i - 1];
    for (const MemoryCapability& memory : node.memories) {
      if (memory.ordinal < 0 || NormalPciAddress(memory.address) != device.address) continue;
      rows[i][1] += " " + memory.kind + ":" + std::to_string(memory.ordinal);
    }
    if (device.emulated) rows[i][1] += " emulated";
  }
  Table table(std::vector<Table::Column>(rows[0].size()));
  for (std::vector<std::string>& row : rows) table.Add(std::move(row));
  table.PrintRows(out, "  ");
}

void PrintNode(std::ostream& out, const NodeInfo& node) {
  Table table({{""}, {""}});
  std::string state(NodeStateName(node.state));
  Append(state, node.reason);
  Append(state, node.detail);
  table.Add({"node", node.name + (node.self ? " (here)" : "")});
  table.Add({"state", state});
  table.Add({"since", FormatTime(node.since)});
  table.Add({"address", node.address});
  table.Add({"version", node.version + ", protocol " + std::to_string(node.protocol_min) + " to " +
                            std::to_string(node.protocol_max)});
  table.Add({"uid domain", node.uid_domain});
  for (const Expiry& expiry : node.expiries) {
    table.Add({"ends", FormatTime(expiry.expire_time) + "  " + expiry.what + ", " + expiry.file});
  }
  if (node.metrics) {
    const MetricsInfo& metrics = *node.metrics;
    std::string text = metrics.address;
    if (!metrics.viability.viable) {
      text = "not served: " + metrics.viability.reason;
      Append(text, metrics.viability.detail);
    }
    table.Add({"metrics", text});
  }
  for (const NameConflict& conflict : node.conflicts) {
    table.Add(
        {"name taken", conflict.name + ": at " + conflict.address + " and at " + conflict.other});
  }
  if (node.discovery && node.discovery->kind != "static") {
    const DiscoveryInfo& discovery = *node.discovery;
    std::string text = discovery.kind + ", " + std::to_string(discovery.peers) + " peers, " +
                       std::to_string(discovery.strangers) + " not in [peers], " +
                       std::to_string(discovery.refused) + " refused";
    if (!discovery.viability.viable) Append(text, discovery.viability.detail);
    table.Add({"discovery", text});
  }
  for (const AccountInfo& account : node.accounts) {
    uint64_t bytes = 0;
    std::string what;
    for (const ChargeInfo& charge : account.charges) {
      bytes += charge.bytes;
      Append(what, std::to_string(charge.count) + " " + charge.what);
    }
    table.Add({"charged", account.payer + "  " + FormatBytes(bytes) + "  " + what});
  }
  table.PrintRows(out, "");
  if (!node.capabilities.has_value()) {
    out << "its memories and links are unknown: this node has not reached it yet\n";
    return;
  }
  out << "memories\n";
  for (const auto& memory : node.capabilities->memories) PrintMemory(out, memory);
  out << "links\n";
  for (const auto& link : node.capabilities->links) PrintLink(out, link);
  if (!node.capabilities->stores.empty()) out << "stores\n";
  for (const auto& store : node.capabilities->stores) {
    PrintItem(out, "  ", store.name, Attributes(store.attributes), store.viability);
  }
  PrintTopology(out, *node.capabilities);
  if (!node.probes.empty()) {
    out << "probes\n";
    PrintProbes(out, node.probes, "  ");
  }
  PrintRates(out, node);
}

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
