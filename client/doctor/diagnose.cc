#include "client/doctor/diagnose.h"

#include <algorithm>

#include "client/doctor/rules.h"
#include "onecopy/size.h"

namespace onecopy::doctor {
namespace {

// A probe that took the whole path: GPU memory, a peer, hardware.
const Probe* Proof(const Facts& facts) {
  const Probe* best = nullptr;
  for (const Probe& probe : facts.probes) {
    if (!probe.MovedGpuMemory() || probe.emulated || probe.peer.empty()) continue;
    if (best == nullptr || probe.bytes_per_second > best->bytes_per_second) best = &probe;
  }
  return best;
}

std::string DescribeProof(const Probe& probe) {
  std::string text = probe.link + " moved GPU memory from " + probe.peer;
  if (!probe.peer_nic.empty()) text += " " + probe.peer_nic;
  if (!probe.nic.empty()) text += " to " + probe.nic;
  return text + " at " + FormatRate(static_cast<double>(probe.bytes_per_second));
}

std::string WhyNotProven(const Facts& facts) {
  if (!facts.daemon.answered) return "no daemon answers: " + facts.daemon.why_not;
  if (facts.daemon.peers.empty()) return "the daemon has no peer, so nothing was moved to one";
  for (const Probe& probe : facts.probes) {
    if (probe.MovedGpuMemory() && probe.emulated) {
      return "the RDMA devices that moved GPU memory are emulated, which proves nothing about "
             "hardware";
    }
    if (probe.MovedGpuMemory()) {
      return "GPU memory moved over RDMA within this node, but not from a peer";
    }
  }
  return "no probe of the daemon moved GPU memory from a peer over RDMA";
}

}  // namespace

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kBlocks:
      return "blocks";
    case Severity::kSlows:
      return "slows";
    case Severity::kNote:
      return "note";
  }
  return "?";
}

const Finding* Diagnosis::Find(std::string_view code) const {
  for (const Finding& finding : findings) {
    if (finding.code == code) return &finding;
  }
  return nullptr;
}

std::string Join(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

Diagnosis Diagnose(const Facts& facts) {
  Findings findings;
  EvaluateNics(facts, findings);
  EvaluatePorts(facts, findings);
  EvaluateGpus(facts, findings);
  EvaluateRegistration(facts, findings);
  EvaluateMachine(facts, findings);
  EvaluatePlaces(facts, findings);
  EvaluateCertificates(facts, findings);
  EvaluateService(facts, findings);
  EvaluateUcx(facts, findings);
  EvaluateStorage(facts, findings);
  EvaluateProbes(facts, findings);

  Diagnosis diagnosis;
  if (const Probe* proof = Proof(facts)) {
    diagnosis.works = true;
    diagnosis.proof = DescribeProof(*proof);
    for (Finding& finding : findings.list()) {
      if (finding.severity != Severity::kBlocks) continue;
      finding.severity = Severity::kNote;
      finding.evidence += "; it did not stop the probe";
    }
  } else {
    findings.Add(
        "NOT_PROVEN", Severity::kBlocks, WhyNotProven(facts),
        facts.daemon.answered
            ? "fix the other findings, connect a peer, then run `onecopy probe`"
            : "start onecopyd with a peer, run `onecopy probe`, then `onecopy doctor` again");
  }
  diagnosis.findings = std::move(findings.list());
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return diagnosis;
}

}  // namespace onecopy::doctor
