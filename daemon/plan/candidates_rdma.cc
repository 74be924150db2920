#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "daemon/plan/candidates.h"
#include "daemon/plan/nic_pairs.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {
namespace {

// How far a link got before it turned out impossible: of several, the one that came closest tells
// the reader most.
enum class Progress { kNoDevice, kMissing, kNotViable, kUnlikeVersions, kUnreachable, kUnpinnable };

struct OverLink {
  std::vector<Candidate> candidates;
  Progress progress = Progress::kMissing;
  Viability why;  // the reason, if no candidate was found
};

OverLink Stopped(Progress progress, Viability why) {
  return {.candidates = {}, .progress = progress, .why = std::move(why)};
}

constexpr const char* kRdmaRemedy =
    "give both nodes an InfiniBand or RoCE device and the link verbs or ucx";

bool HasRdmaLink(const NodeCapability& node) {
  return std::any_of(node.links.begin(), node.links.end(), IsRdmaLink);
}

// In the order in which the nodes name them.
std::vector<std::string> RdmaLinkNames(const Ends& ends) {
  std::vector<std::string> names;
  for (const NodeCapability* node : {&ends.source_node, &ends.destination_node}) {
    for (const LinkCapability& link : node->links) {
      const bool known = std::find(names.begin(), names.end(), link.name) != names.end();
      if (IsRdmaLink(link) && !known) names.push_back(link.name);
    }
  }
  return names;
}

// Why one node cannot use its link for RDMA; viable where it can.
Viability UseOf(const LinkCapability& link, const NodeCapability& node) {
  const std::string where = link.name + " of " + node.node;
  Viability why = link.viability;
  if (!why.viable) {
    why.detail = where + ": " + why.detail;
    return why;
  }
  if (!link.rdma) return Viability::No(reasons::kNoRdmaDevice, where + " has no RDMA device");
  if (link.nics.empty()) {
    return Viability::No(reasons::kNoRdmaDevice, where + " has no RDMA device", kRdmaRemedy);
  }
  const auto usable = std::find_if(link.nics.begin(), link.nics.end(),
                                   [](const NicCapability& nic) { return nic.viability.viable; });
  if (usable != link.nics.end()) return {};
  why = link.nics.front().viability;
  why.detail = link.nics.front().name + " of " + node.node + ": " + why.detail;
  return why;
}

// A software device sends through the devices that sockets use too, and is no faster than they are.
uint64_t EmulatedLimit(const NicPair& pair, const Ends& ends) {
  const LinkCapability* source = ends.source_node.FindLink("tcp");
  const LinkCapability* destination = ends.destination_node.FindLink("tcp");
  const uint64_t sockets = source == nullptr || destination == nullptr || ends.OnOneHost()
                               ? 0
                               : FastestWire(*source, *destination) / 2;
  const uint64_t own = pair.bytes_per_second();
  if (own == 0 || sockets == 0) return std::max(own, sockets);
  return std::min(own, sockets);
}

OverLink AssessLink(const Rung& rung, const Ends& ends, const std::string& name) {
  const NodeCapability& from = ends.source_node;
  const NodeCapability& to = ends.destination_node;
  const LinkCapability* source = from.FindLink(name);
  const LinkCapability* destination = to.FindLink(name);
  if (source == nullptr || destination == nullptr) {
    const bool neither = source == nullptr && destination == nullptr;
    const std::string lacking = source == nullptr ? from.node : to.node;
    const std::string having = source == nullptr ? to.node : from.node;
    return Stopped(
        Progress::kMissing,
        Viability::No(reasons::kLinkMissing,
                      neither ? "neither " + from.node + " nor " + to.node + " has a link " + name
                              : lacking + " has no link " + name + ", which " + having + " has",
                      "run an onecopyd with the link " + name + " on both nodes"));
  }
  if (Viability why = Both(UseOf(*source, from), UseOf(*destination, to)); !why.viable) {
    return Stopped(Progress::kNotViable, std::move(why));
  }
  const bool must_match = source->version_must_match || destination->version_must_match;
  if (must_match && source->version != destination->version) {
    return Stopped(Progress::kUnlikeVersions,
                   Viability::No(reasons::kLinkVersions,
                                 name + " is " + source->version + " on " + from.node + " and " +
                                     destination->version + " on " + to.node +
                                     ", and these versions cannot talk to each other",
                                 "install the same version of " + name + " on both nodes"));
  }
  const std::vector<NicPair> pairs = ReachablePairs(*source, *destination);
  if (pairs.empty()) {
    return Stopped(Progress::kUnreachable,
                   Viability::No(reasons::kNicUnreachable,
                                 "no device reaches another: " + DescribeFabrics(*source, from) +
                                     "; " + DescribeFabrics(*destination, to),
                                 "connect the devices to one fabric, or correct the addresses by "
                                 "which onecopy tells fabrics apart"));
  }
  PairChoice choice = ChoosePairs(rung, ends, name, pairs);
  OverLink outcome{.candidates = {}, .progress = Progress::kUnpinnable, .why = choice.why};
  for (const PairUse& use : choice.uses) {
    outcome.candidates.push_back(
        {.path = PathOverLink(rung, ends, name, use.staging, use.pair.emulated()),
         .needless = use.staging.Needless(ends),
         .wire = use.wire,
         .wire_bytes_per_second =
             use.pair.emulated() ? EmulatedLimit(use.pair, ends) : use.pair.bytes_per_second()});
  }
  return outcome;
}

}  // namespace

bool IsWithinHost(const NicCapability& nic) { return nic.name == "cuda_ipc"; }

bool IsRdmaLink(const LinkCapability& link) {
  return link.rdma ||
         std::find(kRdmaLinks.begin(), kRdmaLinks.end(), link.name) != kRdmaLinks.end();
}

Assessment AssessRdma(const Rung& rung, const Ends& ends, const std::string& link) {
  const bool source = HasRdmaLink(ends.source_node);
  const bool destination = HasRdmaLink(ends.destination_node);
  if (!source || !destination) {
    const std::string& from = ends.source_node.node;
    const std::string& to = ends.destination_node.node;
    return Refused(rung, reasons::kNoRdmaDevice,
                   !source && !destination
                       ? "neither " + from + " nor " + to + " has a link with RDMA devices"
                       : (source ? to : from) + " has no link with RDMA devices",
                   kRdmaRemedy);
  }
  const std::vector<std::string> names =
      link.empty() ? RdmaLinkNames(ends) : std::vector<std::string>{link};
  std::vector<Candidate> all;
  std::optional<OverLink> closest;
  for (const std::string& name : names) {
    OverLink outcome = AssessLink(rung, ends, name);
    all.insert(all.end(), outcome.candidates.begin(), outcome.candidates.end());
    if (!closest || outcome.progress > closest->progress) closest = std::move(outcome);
  }
  if (all.empty()) return Refused(rung, std::move(closest->why));
  return {.candidates = std::move(all), .refusal = {}};
}

}  // namespace onecopy::plan
