#include "daemon/status/findings.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/tls/identity.h"

namespace onecopy::status {
namespace {

constexpr double kNearlyUsed = 0.9;  // as the alert says it

class Findings {
 public:
  void Add(std::string code, Severity severity, std::string evidence, std::string remedy) {
    all_.push_back({std::move(code), severity, std::move(evidence), std::move(remedy)});
  }
  std::vector<Finding> Take() {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
    return std::move(all_);
  }

 private:
  std::vector<Finding> all_;
};

std::string Count(uint64_t count, const std::string& one, const std::string& several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

void AddProcess(const Seen& seen, Findings& findings) {
  if (seen.figures == nullptr) {
    findings.Add("ENGINE_SILENT", Severity::kBlocks, "the daemon's engine did not answer in time",
                 "see the daemon's log; if it lasts, restart onecopyd");
  }
  if (seen.log_records_dropped > 0) {
    findings.Add("LOG_RECORDS_DROPPED", Severity::kNote,
                 Count(seen.log_records_dropped, "log record was", "log records were") +
                     " dropped: the log's reader was too slow",
                 "check the load of journald, or of what reads the daemon's standard error");
  }
  if (seen.audit_records_dropped > 0) {
    findings.Add("AUDIT_RECORDS_DROPPED", Severity::kNote,
                 Count(seen.audit_records_dropped, "audit record was", "audit records were") +
                     " dropped: a caller exceeded its allowance, or the file was too slow",
                 "the audit log counts the dropped records by caller; see [audit]");
  }
}

std::string RemedyFor(std::string_view reason) {
  if (reason == reasons::kCertRejected) {
    return "check [tls] on both nodes: the same CA, certificates that are valid now and not "
           "revoked, and clocks that agree";
  }
  if (reason == reasons::kAccessDenied) return "name this node in [peers] of that node";
  if (reason == reasons::kPeerIncompatible) {
    return "run neighbouring versions of onecopyd on both nodes";
  }
  return "check that onecopyd runs there; `onecopy node ls` says more";
}

void AddPeers(const engine::Figures& figures, Findings& findings) {
  for (const engine::PeerFigures& peer : figures.peers.peers) {
    const std::string node = "node " + peer.name;
    if (!peer.connected) {
      findings.Add(peer.reason.empty() ? std::string(reasons::kPeerDown) : peer.reason,
                   Severity::kBlocks, node + ": " + peer.detail, RemedyFor(peer.reason));
    } else if (peer.state == NodeState::kDraining) {
      findings.Add("PEER_DRAINS", Severity::kNote, node + " takes no new transfers",
                   "`onecopy node undrain` there ends that");
    }
    for (const std::string& address : peer.silent_addresses) {
      findings.Add("ADDRESS_SILENT", Severity::kSlows,
                   node + " does not answer at " + address + "; its other addresses carry all",
                   "check the network device and the network of that address, on both nodes");
    }
  }
  const auto slow = [&](uint64_t count, const std::string& from) {
    if (count == 0) return;
    findings.Add(
        "SLOW_TRANSFERS", Severity::kSlows,
        Count(count, "transfer", "transfers") + " " + from +
            " took far longer than measured before",
        "the daemon's log names each; `onecopy doctor` and `onecopy probe` look for causes");
  };
  slow(figures.slow_transfers_inside, "inside this node");
  for (const engine::PeerFigures& peer : figures.peers.peers) {
    slow(peer.slow_transfers, "from node " + peer.name);
  }
}

void AddDiscovery(const engine::Figures& figures, Findings& findings) {
  for (const NameConflict& conflict : figures.conflicts) {
    findings.Add("NAME_TAKEN_TWICE", Severity::kBlocks,
                 "two daemons have the name " + conflict.name + ": at " + conflict.address +
                     " and at " + conflict.other,
                 "give every node its own name, or stop one of the two");
  }
  if (figures.discovery && !figures.discovery->viability.viable) {
    findings.Add("DISCOVERY_FAILS", Severity::kNote,
                 figures.discovery->kind + ": " + figures.discovery->viability.detail,
                 figures.discovery->viability.remedy);
  }
}

void AddCertificates(const Seen& seen, Findings& findings) {
  for (const Expiry& expiry : seen.figures->expiries) {
    if (!tls::EndsSoon({expiry.what, expiry.file, expiry.begin_time, expiry.expire_time},
                       seen.now)) {
      continue;
    }
    const bool ended = expiry.expire_time <= seen.now;
    findings.Add(
        ended ? "CERTIFICATE_EXPIRED" : "CERTIFICATE_EXPIRES",
        ended ? Severity::kBlocks : Severity::kNote,
        expiry.what + (ended ? " has expired, at " : " expires at ") +
            tls::TimeText(expiry.expire_time),
        "replace it (onecopy cert issue, or your CA); the daemon reads the new file within a "
        "minute");
  }
}

void AddShortages(const engine::Figures& figures, Findings& findings) {
  for (const engine::QuotaFigures& quota : figures.quotas) {
    const auto used = static_cast<double>(quota.used);
    if (quota.limit == 0 || used <= kNearlyUsed * static_cast<double>(quota.limit)) continue;
    findings.Add("QUOTA_NEARLY_USED", Severity::kNote,
                 std::to_string(quota.used) + " of " + std::to_string(quota.limit) +
                     " of [limits] " + quota.what + " are used",
                 "as an administrator, run `onecopy node show`: it lists the users");
  }
  const auto waits = [&](const engine::SlotFigures& half, const std::string& purpose) {
    if (half.waiting == 0) return;
    findings.Add("SLOTS_WAITED_FOR", Severity::kSlows,
                 Count(half.waiting, "transfer waits", "transfers wait") +
                     " for a staging slot to " + purpose,
                 "if this lasts, set more slots in [staging]");
  };
  waits(figures.send_slots, "send");
  waits(figures.receive_slots, "receive");
}

void AddDevices(const engine::StatusFigures& status, Findings& findings) {
  for (const engine::DeviceFigures& device : status.devices) {
    const Viability& viability = device.viability;
    // Switched off is what the operator wants.
    if (viability.viable || viability.reason == reasons::kSwitchedOff) continue;
    findings.Add(viability.reason, Severity::kNote,
                 device.kind + " " + device.name + ": " + viability.detail, viability.remedy);
  }
}

}  // namespace

std::string SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kBlocks:
      return "blocks";
    case Severity::kSlows:
      return "slows";
    case Severity::kNote:
      break;
  }
  return "note";
}

std::vector<Finding> FindingsOf(const Seen& seen) {
  Findings findings;
  AddProcess(seen, findings);
  if (seen.figures == nullptr) return findings.Take();
  if (seen.figures->draining) {
    findings.Add("NODE_DRAINS", Severity::kNote, "this node takes no new transfers",
                 "`onecopy node undrain` ends that");
  }
  AddPeers(*seen.figures, findings);
  AddDiscovery(*seen.figures, findings);
  AddCertificates(seen, findings);
  AddShortages(*seen.figures, findings);
  if (seen.figures->status) AddDevices(*seen.figures->status, findings);
  return findings.Take();
}

}  // namespace onecopy::status
