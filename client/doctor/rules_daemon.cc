// UCX, and what a daemon and its probes tell.
#include <algorithm>

#include "client/doctor/rules.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/tls/identity.h"

namespace onecopy::doctor {
namespace {

// Rates below this part of what was expected, or of another NIC's, are worth a word.
constexpr double kWorthAWord = 0.8;

std::string Rate(uint64_t bytes_per_second) {
  return FormatRate(static_cast<double>(bytes_per_second));
}

std::string DescribeProbe(const Probe& probe) {
  std::string text = probe.link + " from " + (probe.peer.empty() ? "this node" : probe.peer);
  if (!probe.peer_nic.empty()) text += " " + probe.peer_nic;
  if (!probe.nic.empty()) text += " to " + probe.nic;
  return text + ", " + probe.peer_memory + " to " + probe.memory + " memory";
}

bool Slower(uint64_t slow, uint64_t fast) {
  return static_cast<double>(slow) < kWorthAWord * static_cast<double>(fast);
}

// A NIC that is there and carries nothing, faster than all that do.
void EvaluateIdleNics(const Facts& facts, Findings& findings) {
  for (const LinkCapability& link : facts.daemon.capabilities.links) {
    if (!link.rdma || !link.viability.viable) continue;
    const NicCapability* used = nullptr;
    const NicCapability* idle = nullptr;
    for (const NicCapability& nic : link.nics) {
      if (nic.emulated) continue;
      const NicCapability*& best = nic.viability.viable ? used : idle;
      if (best == nullptr || nic.bytes_per_second > best->bytes_per_second) best = &nic;
    }
    if (used == nullptr || idle == nullptr) continue;
    if (!Slower(used->bytes_per_second, idle->bytes_per_second)) continue;
    findings.Add("SLOWER_NIC_USED", Severity::kSlows,
                 link.name + " uses " + used->name + " (" + Rate(used->bytes_per_second) +
                     ") and not " + idle->name + " (" + Rate(idle->bytes_per_second) +
                     "): " + idle->viability.reason + ", " + idle->viability.detail,
                 idle->viability.remedy.empty() ? "see `onecopy node show` for what " + idle->name +
                                                      " lacks, and [rdma] devices"
                                                : idle->viability.remedy);
  }
}

// Lanes on one pair of NICs where another pair was seen to be faster.
void EvaluateLanes(const Facts& facts, Findings& findings) {
  for (const Probe& used : facts.probes) {
    if (!used.used || !used.viable || used.emulated) continue;
    const Probe* best = &used;
    for (const Probe& other : facts.probes) {
      if (!other.viable || other.emulated || other.link != used.link || other.peer != used.peer ||
          other.memory != used.memory || other.peer_memory != used.peer_memory) {
        continue;
      }
      // What also carries lanes is not passed over.
      if (!other.used && other.bytes_per_second > best->bytes_per_second) best = &other;
    }
    if (!Slower(used.bytes_per_second, best->bytes_per_second)) continue;
    findings.Add("SLOWER_NIC_USED", Severity::kSlows,
                 "lanes take " + DescribeProbe(used) + " at " + Rate(used.bytes_per_second) +
                     ", and " + DescribeProbe(*best) + " was measured at " +
                     Rate(best->bytes_per_second),
                 "run `onecopy probe`, so that the daemon chooses its lanes again; check which "
                 "devices [rdma] devices excludes");
  }
}

struct PortMtu {
  std::string name;  // "mlx5_0"
  std::string bytes;
};

// Hardware ports of the verbs link, which tells their MTUs by attributes such as "mtu mlx5_0".
std::vector<PortMtu> PortMtus(const NodeCapability& node) {
  std::vector<PortMtu> ports;
  const LinkCapability* verbs = node.FindLink("verbs");
  if (verbs == nullptr) return ports;
  for (const NicCapability& nic : verbs->nics) {
    const auto mtu = verbs->attributes.find("mtu " + nic.name);
    if (nic.emulated || !nic.viability.viable || mtu == verbs->attributes.end()) continue;
    ports.push_back({nic.name, mtu->second});
  }
  return ports;
}

// One line for each peer: a lane takes the smaller MTU of its two ports.
void EvaluatePeerMtus(const Facts& facts, Findings& findings) {
  for (const Peer& peer : facts.daemon.peers) {
    const std::vector<PortMtu> theirs = PortMtus(peer.capabilities);
    for (const PortMtu& own : PortMtus(facts.daemon.capabilities)) {
      const auto other = std::find_if(theirs.begin(), theirs.end(),
                                      [&](const PortMtu& port) { return port.bytes != own.bytes; });
      if (other == theirs.end()) continue;
      findings.Add("MTU_MISMATCH", Severity::kSlows,
                   own.name + " moves " + own.bytes + " bytes a packet, and " + other->name +
                       " of " + peer.name + " " + other->bytes,
                   "set the same MTU on the network devices of both nodes and on the switches "
                   "between them: ip link set NETDEV mtu 9000");
      break;
    }
  }
}

}  // namespace

void EvaluateCertificates(const Facts& facts, Findings& findings) {
  for (const Expiry& expiry : facts.daemon.expiries) {
    if (!tls::EndsSoon({expiry.what, expiry.file, expiry.since, expiry.until}, facts.daemon.now)) {
      continue;
    }
    const bool ended = expiry.until <= facts.daemon.now;
    findings.Add(ended ? "CERTIFICATE_EXPIRED" : "CERTIFICATE_EXPIRES",
                 ended ? Severity::kBlocks : Severity::kNote,
                 expiry.what + " (" + expiry.file +
                     (ended ? ") has expired, at " : ") expires at ") +
                     tls::TimeText(expiry.until) +
                     (ended ? ": peers will reject this node, or this node will reject them" : ""),
                 "replace it (onecopy cert issue, or your CA); the daemon reads the new file "
                 "within a minute");
  }
}

// The daemon as a service: what an operator asked of it and does not get.
void EvaluateService(const Facts& facts, Findings& findings) {
  const std::optional<Viability>& metrics = facts.daemon.metrics;
  // Switched off is what the operator wants.
  if (metrics && !metrics->viable && metrics->reason != reasons::kSwitchedOff) {
    findings.Add("METRICS_NOT_SERVED", Severity::kNote, metrics->reason + ", " + metrics->detail,
                 metrics->remedy);
  }
  for (const NameConflict& conflict : facts.daemon.conflicts) {
    const std::string teller =
        conflict.told_by.empty() ? std::string() : " (seen by " + conflict.told_by + ")";
    findings.Add("NAME_TAKEN_TWICE", Severity::kBlocks,
                 "two daemons have the name " + conflict.name + ": at " + conflict.address +
                     " and at " + conflict.other + teller,
                 "give every node its own name (name in its configuration), or stop one of the "
                 "two daemons");
  }
  const std::optional<DiscoveryInfo>& discovery = facts.daemon.discovery;
  if (discovery && !discovery->viability.viable) {
    findings.Add("DISCOVERY_FAILS", Severity::kNote,
                 discovery->kind + ": " + discovery->viability.reason + ", " +
                     discovery->viability.detail + "; peers that are known already stay known",
                 discovery->viability.remedy);
  }
  for (const auto& [node, address] : facts.daemon.silent_addresses) {
    findings.Add("ADDRESS_SILENT", Severity::kSlows,
                 "node " + node + " does not answer at " + address +
                     ", one of its addresses for payload; its others carry all",
                 "check the network device and the network of that address, on both nodes; the "
                 "daemon uses it again as soon as it answers");
  }
  if (facts.daemon.draining) {
    findings.Add("NODE_DRAINS", Severity::kNote,
                 "this node drains: it takes no new transfers, of clients or peers",
                 "onecopy node undrain, when it should take them again");
  }
}

void EvaluateUcx(const Facts& facts, Findings& findings) {
  if (facts.ucx.found) {
    const std::string seen = "UCX " + facts.ucx.version + " has these modules in " +
                             facts.ucx.modules_folder + ": " + Join(facts.ucx.modules, 12);
    const std::string remedy =
        "install a vendor's UCX with verbs and CUDA: the daemon finds HPC-X below /opt and in the "
        "HPC SDK, and DOCA-OFED; elsewhere set [libraries] ucx to its libucp.so.0. The verbs link "
        "does not need UCX";
    if (!facts.ucx.verbs) findings.Add("UCX_WITHOUT_VERBS", Severity::kNote, seen, remedy);
    if (!facts.ucx.cuda) findings.Add("UCX_WITHOUT_CUDA", Severity::kNote, seen, remedy);
  }
  const LinkCapability* own = facts.daemon.capabilities.FindLink("ucx");
  if (own == nullptr || own->version.empty()) return;
  for (const Peer& peer : facts.daemon.peers) {
    const LinkCapability* theirs = peer.capabilities.FindLink("ucx");
    if (theirs == nullptr || theirs->version.empty() || theirs->version == own->version) continue;
    findings.Add("UCX_VERSIONS_UNLIKE", Severity::kSlows,
                 "UCX is " + own->version + " here and " + theirs->version + " on " + peer.name +
                     ": these two versions cannot talk to each other",
                 "install the same UCX on both nodes, or set [libraries] ucx to the same version");
  }
}

void EvaluateProbes(const Facts& facts, Findings& findings) {
  for (const Probe& probe : facts.probes) {
    if (!probe.viable && !probe.emulated &&
        (probe.memory == "cuda" || probe.peer_memory == "cuda")) {
      findings.Add("PROBE_FAILED", Severity::kBlocks,
                   DescribeProbe(probe) + ": " + probe.reason + ", " + probe.detail,
                   "find the cause in the other findings, then run `onecopy probe`");
    }
    if (probe.viable && !probe.emulated && probe.expected_bytes_per_second != 0 &&
        Slower(probe.bytes_per_second, probe.expected_bytes_per_second)) {
      findings.Add("PROBE_BELOW_EXPECTATION", Severity::kSlows,
                   DescribeProbe(probe) + " was measured at " + Rate(probe.bytes_per_second) +
                       ", and its ports do " + Rate(probe.expected_bytes_per_second),
                   "see ACS_IN_THE_WAY, IOMMU_IN_THE_WAY and GPU_NIC_ACROSS_SOCKETS; "
                   "compare with ib_read_bw --use_cuda=0 between the two nodes");
    }
  }
  EvaluatePeerMtus(facts, findings);
  EvaluateIdleNics(facts, findings);
  EvaluateLanes(facts, findings);
}

}  // namespace onecopy::doctor
