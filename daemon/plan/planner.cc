#include "daemon/plan/planner.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "daemon/plan/candidates.h"
#include "daemon/plan/failure.h"
#include "daemon/plan/ladder.h"
#include "daemon/plan/path_steps.h"
#include "daemon/plan/policy.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::plan {
namespace {

using Assessments = std::array<Assessment, kLadder.size()>;

// A software device moves bytes by the processor, so nothing of the default table applies to it.
constexpr double kEmulatedBytesPerSecond = 0.5e9;
constexpr double kEmulatedLatencySeconds = 200e-6;
// So many slow transfers are not an accident.
constexpr uint32_t kEnoughTransfers = 2;
// The most that finding out whether a path is still slow costs one transfer: this, or as long again
// as it takes.
constexpr double kMaxLostSeconds = 0.25;
// What asking for one more piece costs, with many under way at once.
constexpr double kSocketGetSeconds = 2e-6;
constexpr double kDeviceGetSeconds = 0.3e-6;

// Why nothing can be done with the memory of an end; viable where something can.
Viability ViabilityOf(const End& end, const MemoryCapability* memory) {
  if (memory != nullptr && memory->viability.viable) return {};
  const std::string what =
      (end.device.empty() ? end.kind + " memory" : end.device) + " of " + end.node->node;
  // A backend without devices says why in an entry without a device.
  if (memory == nullptr) memory = end.node->FindMemory(end.kind, {});
  if (memory == nullptr || memory->viability.viable) {
    return Viability::No(reasons::kDeviceNotFound, what + ": the node has no such memory",
                         "onecopy node show lists the memories of the node");
  }
  Viability why = memory->viability;
  why.detail = what + ": " + why.detail;
  return why;
}

// Of the link that is asked for the caller wants to know what is wrong with it, not that others
// were not asked for.
bool NamesRdmaLink(const std::string& name, const Ends& ends) {
  const LinkCapability* source = ends.source_node.FindLink(name);
  const LinkCapability* destination = ends.destination_node.FindLink(name);
  return std::find(kRdmaLinks.begin(), kRdmaLinks.end(), name) != kRdmaLinks.end() ||
         (source != nullptr && IsRdmaLink(*source)) ||
         (destination != nullptr && IsRdmaLink(*destination));
}

Assessment AssessRung(const Rung& rung, const Ends& ends, const Request& request) {
  const Policy& policy = request.policy;
  const bool between_nodes = rung.carrier == Carrier::kRdma || rung.carrier == Carrier::kTcp;
  const std::string link = NamesRdmaLink(policy.link, ends) ? policy.link : std::string();
  if (rung.name == kThroughNearGpu) {
    if (request.file && ends.InOneNode() && request.source_pieces <= 1 &&
        request.destination_pieces <= 1) {
      Assessment offered = AssessThroughNearGpu(rung, ends, *request.file);
      if (!offered.candidates.empty()) return offered;
    }
    if (policy.path_glob != rung.name) return {};
    return Refused(rung, reasons::kNotApplicable,
                   "this path needs a whole file, a GPU near its drive, and NVLink from that GPU "
                   "to the destination GPU, which is far from the drive");
  }
  if (request.file || ends.source.kind == kFileKind || ends.destination.kind == kFileKind) {
    if (request.file && !ends.InOneNode() && (between_nodes || rung.carrier == Carrier::kStorage))
      return AssessFileOverLink(rung, ends, *request.file, link);
    if (request.file && rung.carrier == Carrier::kStorage)
      return AssessStorage(rung, ends, *request.file);
    return Refused(rung, reasons::kNotApplicable,
                   "one end is a file, and only storage paths begin or end at files");
  }
  if (rung.carrier == Carrier::kStorage) {
    return Refused(rung, reasons::kNotApplicable,
                   policy.client_file
                       ? "the client itself reads or writes this file through its own memory; "
                         "daemons move only regular files, by paths whose names begin with storage"
                       : "both ends are buffers, and a storage path begins or ends at a file");
  }
  if (!between_nodes) return AssessInNode(rung, ends);
  if (ends.InOneNode()) {
    return Refused(rung, reasons::kSameNode,
                   "both ends are on " + ends.source_node.node + ": no link is needed");
  }
  if (rung.carrier == Carrier::kTcp) return AssessTcp(rung, ends);
  return AssessRdma(rung, ends, link);
}

// Takes out what has failed; a rung that has nothing left is refused as it was said, of several
// links by what each of them said.
void Exclude(Assessment& assessment, const Rung& rung, const std::vector<Exclusion>& excluded) {
  std::vector<const Exclusion*> reasons;
  for (const Exclusion& one : excluded) {
    const size_t before = assessment.candidates.size();
    std::erase_if(assessment.candidates,
                  [&](const Candidate& candidate) { return one.Covers(candidate.path); });
    const bool concerns =
        assessment.candidates.size() != before || RungNameOf(one.refusal.path) == rung.name;
    if (concerns) reasons.push_back(&one);
  }
  if (reasons.empty() || !assessment.candidates.empty()) return;
  Refusal refusal = reasons.front()->refusal;
  refusal.path = (HasFileThenLink(refusal.path) ? std::string(kFileThenLink) : std::string()) +
                 std::string(rung.name);
  for (size_t i = 1; i < reasons.size(); ++i) {
    const std::string& detail = reasons[i]->refusal.detail;
    if (refusal.detail.find(detail) == std::string::npos) refusal.detail += "; " + detail;
  }
  assessment.refusal = std::move(refusal);
}

// A file has no device and no memory of the node's: what it needs is asked of the stores.
const MemoryCapability* MemoryOf(const End& end) {
  static const MemoryCapability file = [] {
    MemoryCapability any;
    any.kind = kFileKind;
    return any;
  }();
  if (end.kind == kFileKind) return &file;
  return end.node->FindMemory(end.kind, end.device);
}

Assessments AssessAll(const Request& request) {
  const MemoryCapability* source = MemoryOf(request.source);
  const MemoryCapability* destination = MemoryOf(request.destination);
  Viability memories = ViabilityOf(request.source, source);
  if (memories.viable) memories = ViabilityOf(request.destination, destination);

  Assessments all;
  for (size_t i = 0; i < kLadder.size(); ++i) {
    const Rung& rung = kLadder[i];
    if (!memories.viable && rung.name == kThroughNearGpu) continue;
    if (!memories.viable) {
      all[i] = Refused(rung, memories);
      continue;
    }
    const Ends ends{*request.source.node, *request.destination.node, *source, *destination,
                    request.estimates};
    all[i] = AssessRung(rung, ends, request);
    Exclude(all[i], rung, request.excluded);
  }
  return all;
}

// By the table, and by what a probe found of the wire.
Estimate PriorOf(const Candidate& candidate, const Request& request) {
  const Path& path = candidate.path;
  Estimate estimate = Estimates::ByTable(path.path, request.source.kind, request.destination.kind);
  double& rate = estimate.bytes_per_second;
  const Estimate* wire = request.estimates.FindWire(candidate.wire);
  if (wire != nullptr) {
    // What is staged is no faster than its copies, which have not been measured.
    const bool staged = path.source_staged || path.destination_staged;
    const double latency = estimate.latency_seconds;
    if (!staged || wire->bytes_per_second <= rate) estimate = *wire;
    estimate.latency_seconds =
        staged ? std::max(latency, wire->latency_seconds) : wire->latency_seconds;
    return estimate;
  }
  if (candidate.wire_bytes_per_second != 0) {
    rate = std::min(rate, static_cast<double>(candidate.wire_bytes_per_second));
  }
  if (path.emulated) {
    rate = std::min(rate, kEmulatedBytesPerSecond);
    estimate.latency_seconds = std::max(estimate.latency_seconds, kEmulatedLatencySeconds);
  }
  return estimate;
}

void Apply(const Estimate& estimate, uint64_t bytes, Path& path) {
  path.estimated_bytes_per_second = estimate.RateFor(bytes);
  path.measured = estimate.measured;
  path.measure_time = estimate.time;
  path.measured_transfers = estimate.transfers;
}

void SetEstimate(Candidate& candidate, const Request& request) {
  // Nothing has no rate; one byte ranks by latency.
  const uint64_t bytes = std::max<uint64_t>(request.bytes, 1);
  candidate.prior = PriorOf(candidate, request);
  Apply(candidate.prior, bytes, candidate.path);
  if (candidate.prior.measured) {
    candidate.path.probed_bytes_per_second = candidate.path.estimated_bytes_per_second;
  }
  const PathKey way{candidate.path.path,
                    candidate.path.link,
                    {request.source.kind, request.source.device},
                    {request.destination.kind, request.destination.device},
                    candidate.path.source_staged,
                    candidate.path.destination_staged};
  const PathRate* made = request.estimates.FindPath(way, bytes);
  if (made == nullptr) return;
  Estimate whole{.bytes_per_second = made->bytes_per_second,
                 .measured = true,
                 .time = made->time,
                 .transfers = made->transfers};
  // Of long ones their rate includes it.
  if (bytes < kMinMeasuredBytes) whole.latency_seconds = candidate.prior.latency_seconds;
  if (made->transfers < kEnoughTransfers && whole.RateFor(bytes) < candidate.prior.RateFor(bytes)) {
    return;
  }
  candidate.spare_seconds = made->spare_seconds;
  Apply(whole, bytes, candidate.path);
}

// What is read over a link in place is read piece by piece, which takes time; staging gathers the
// pieces, and then is not for nothing even where it is of host memory.
void CountPieces(Candidate& candidate, const Request& request) {
  Path& path = candidate.path;
  if (path.link.empty() || path.estimated_bytes_per_second <= 0) return;
  const uint64_t pieces = std::max(path.source_staged ? 1 : request.source_pieces,
                                   path.destination_staged ? 1 : request.destination_pieces);
  if (pieces > 1) {
    const double each = path.link == "tcp" ? kSocketGetSeconds : kDeviceGetSeconds;
    const auto bytes = static_cast<double>(request.bytes);
    const double seconds =
        bytes / path.estimated_bytes_per_second + static_cast<double>(pieces) * each;
    path.estimated_bytes_per_second = bytes / seconds;
  }
  const bool gathers = (path.source_staged && request.source_pieces > 1) ||
                       (path.destination_staged && request.destination_pieces > 1);
  if (gathers) candidate.needless = false;
}

// Who makes a step that begins or ends at this GPU, where the payload falls into so many pieces.
void NameCopier(Step& step, uint64_t bytes, uint64_t pieces, uint64_t kernel_below_bytes) {
  const bool kernel = pieces > 1 && bytes / pieces < kernel_below_bytes;
  if (kernel && step.by == "copy-engine") step.by = "gpu-kernel";
}

// As the GPU's own memory decides it when the copies are there.
void NameCopiers(Path& path, const Request& request) {
  const MemoryCapability& from = *MemoryOf(request.source);
  const MemoryCapability& to = *MemoryOf(request.destination);
  const bool in_node = path.link.empty();
  if (in_node && path.steps.size() == 1) {
    const MemoryCapability& gpu = IsGpu(from) ? from : to;
    const bool host = IsHost(from) || IsHost(to);
    return NameCopier(path.steps[0], request.bytes,
                      std::max(request.source_pieces, request.destination_pieces),
                      host ? gpu.kernel_below_bytes_host : gpu.kernel_below_bytes_gpu);
  }
  if (path.source_staged) {
    NameCopier(path.steps.front(), request.bytes, request.source_pieces,
               from.kernel_below_bytes_host);
  }
  if (path.destination_staged || in_node) {
    NameCopier(path.steps.back(), request.bytes, request.destination_pieces,
               to.kernel_below_bytes_host);
  }
}

// Takes the candidates that the policy excludes out; a rung that loses all of them is refused for
// the first one's reason, as all of one rung share their copies and those over links not asked for.
void ApplyPolicy(Assessment& assessment, const Policy& policy) {
  std::vector<Candidate> left;
  for (Candidate& candidate : assessment.candidates) {
    std::optional<Refusal> objection = Objection(policy, candidate.path);
    if (!objection) {
      left.push_back(std::move(candidate));
    } else if (assessment.refusal.path.empty()) {
      assessment.refusal = std::move(*objection);
    }
  }
  assessment.candidates = std::move(left);
}

// The fastest of all; of those within 10 % of it the one with the fewest copies; of those the
// highest on the ladder, and there the fastest again.
const Candidate* Choose(const Assessments& all, bool needless) {
  double best_rate = 0;
  for (const Assessment& assessment : all) {
    for (const Candidate& candidate : assessment.candidates) {
      if (candidate.needless != needless) continue;
      best_rate = std::max(best_rate, candidate.path.estimated_bytes_per_second);
    }
  }
  const Candidate* chosen = nullptr;
  for (const Assessment& assessment : all) {
    const Candidate* above = chosen;  // of a higher rung
    for (const Candidate& candidate : assessment.candidates) {
      const double rate = candidate.path.estimated_bytes_per_second;
      if (candidate.needless != needless || rate < kEqualRate * best_rate) continue;
      const bool better = chosen == nullptr || candidate.path.copies() < chosen->path.copies() ||
                          (chosen != above && rate > chosen->path.estimated_bytes_per_second);
      if (better) chosen = &candidate;
    }
  }
  return chosen;
}

// What would be taken instead of `chosen` had it not been measured to be slow, where one transfer
// may find out whether it still is.
const Candidate* WorthAnotherTry(const Assessments& all, const Candidate& chosen,
                                 const Request& request) {
  const auto bytes = static_cast<double>(request.bytes);
  const double chosen_rate = chosen.path.estimated_bytes_per_second;
  if (!request.may_try_again || bytes <= 0 || chosen_rate <= 0) return nullptr;
  const double taken = bytes / chosen_rate;
  const Candidate* best = nullptr;
  double best_rate = chosen_rate;
  for (const Assessment& assessment : all) {
    for (const Candidate& candidate : assessment.candidates) {
      const double believed = candidate.prior.RateFor(request.bytes);
      const double measured = candidate.path.estimated_bytes_per_second;
      const bool fewer = candidate.path.copies() < chosen.path.copies();
      const bool wins = believed > best_rate ||
                        (fewer && best == nullptr && believed >= kEqualRate * chosen_rate);
      if (&candidate == &chosen || candidate.needless != chosen.needless || !wins) continue;
      // No transfer has gone there, or it was no slower than believed.
      if (candidate.path.measured_transfers == 0 || measured <= 0 || measured >= believed) continue;
      const double lost = bytes / measured - taken;
      if (lost > std::min(candidate.spare_seconds, std::max(kMaxLostSeconds, taken))) continue;
      best = &candidate;
      best_rate = std::max(believed, chosen_rate);
    }
  }
  return best;
}

std::string RateOf(const Path& path) {
  return FormatRate(path.estimated_bytes_per_second) + " (" + BasisOf(path) + ")";
}

// Why a rung that would have worked, and sounds better, was passed over for `chosen`.
Refusal PassedOver(const Assessment& assessment, const Candidate& chosen, uint64_t bytes) {
  const Candidate& passed = *std::max_element(
      assessment.candidates.begin(), assessment.candidates.end(),
      [](const Candidate& a, const Candidate& b) {
        if (a.needless != b.needless) return a.needless;
        return a.path.estimated_bytes_per_second < b.path.estimated_bytes_per_second;
      });
  if (passed.needless && !chosen.needless) {
    return {passed.path.path, std::string(reasons::kNotRequested),
            "it would stage host memory, which only adds copies",
            "ask for path=" + passed.path.path + " to use it anyway"};
  }
  const bool measured = passed.path.measured && chosen.path.measured;
  return {passed.path.path,
          std::string(measured ? reasons::kSlowerMeasured : reasons::kSlowerEstimated),
          RateOf(passed.path) + " against " + RateOf(chosen.path) + " of " + chosen.path.path +
              " for " + FormatBytes(bytes),
          "ask for path=" + passed.path.path + " to use it anyway"};
}

// Everything that would work and that the policy accepts, with its estimate.
Assessments Acceptable(const Request& request) {
  Assessments all = AssessAll(request);
  for (Assessment& assessment : all) {
    ApplyPolicy(assessment, request.policy);
    for (Candidate& candidate : assessment.candidates) {
      SetEstimate(candidate, request);
      CountPieces(candidate, request);
      NameCopiers(candidate.path, request);
    }
  }
  return all;
}

}  // namespace

Exclusion Exclusion::Of(const Path& path, const Status& failure) {
  // How a path is staged changes nothing about that its link does not connect.
  const bool unconnected =
      failure.reason() == reasons::kLinkDown || failure.reason() == reasons::kNicUnreachable;
  return {.refusal = {path.path, failure.reason(), failure.message(), failure.remedy()},
          .link = path.link,
          .source_staged = path.source_staged,
          .destination_staged = path.destination_staged,
          .whole_link = unconnected && !path.link.empty()};
}

bool Exclusion::Covers(const Path& path) const {
  if (path.link != link) return false;
  return whole_link || (path.path == refusal.path && path.source_staged == source_staged &&
                        path.destination_staged == destination_staged);
}

std::vector<Wire> AcceptableWires(const Request& request) {
  if (request.bytes == 0) return {};
  const Assessments all = Acceptable(request);
  std::vector<const Candidate*> candidates;
  for (const Assessment& assessment : all) {
    for (const Candidate& candidate : assessment.candidates) {
      if (!candidate.needless && !candidate.wire.link.empty()) candidates.push_back(&candidate);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate* a, const Candidate* b) {
                     return a->path.estimated_bytes_per_second > b->path.estimated_bytes_per_second;
                   });
  std::vector<Wire> wires;
  for (const Candidate* candidate : candidates) {
    const bool known = std::find(wires.begin(), wires.end(), candidate->wire) != wires.end();
    if (!known) wires.push_back(candidate->wire);
  }
  return wires;
}

std::vector<Wire> ContendingWires(const Request& request) {
  std::vector<Wire> wires = AcceptableWires(request);
  if (wires.size() < 2) wires.clear();
  return wires;
}

Result<Path> MakePlan(const Request& request) {
  assert(request.source.node != nullptr && request.destination.node != nullptr);
  ONECOPY_RETURN_IF_ERROR(
      CheckPolicy(request.policy, *request.source.node, *request.destination.node));
  Assessments all = Acceptable(request);
  const Candidate* chosen = Choose(all, false);
  if (chosen == nullptr) chosen = Choose(all, true);
  if (chosen == nullptr) {
    std::vector<Refusal> refused;
    for (Assessment& assessment : all) {
      // What was never offered is not refused.
      if (assessment.refusal.path.empty()) continue;
      refused.push_back(std::move(assessment.refusal));
    }
    return Unmet(request, std::move(refused));
  }
  std::string tried_again;
  Candidate again;
  if (const Candidate* slow = WorthAnotherTry(all, *chosen, request); slow != nullptr) {
    again = *slow;
    tried_again = RateOf(slow->path) + " against " + RateOf(chosen->path) + " of " +
                  chosen->path.path + "; measured again, because that measurement is old";
    Apply(again.prior, request.bytes, again.path);
    chosen = &again;
  }
  Path path = chosen->path;
  path.tried_again = std::move(tried_again);
  for (size_t i = 0; kLadder[i].name != RungNameOf(path.path); ++i) {
    if (!all[i].candidates.empty()) {
      path.refused.push_back(PassedOver(all[i], *chosen, request.bytes));
    } else if (!all[i].refusal.path.empty()) {
      path.refused.push_back(all[i].refusal);
    }
  }
  return path;
}

}  // namespace onecopy::plan
