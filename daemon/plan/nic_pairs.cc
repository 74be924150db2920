#include "daemon/plan/nic_pairs.h"

#include <algorithm>

#include "daemon/plan/lane_rates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {
namespace {

// What a device has to read or write: the end's own memory, or pinned slots in its place.
WireEnd TargetOf(const MemoryCapability& memory, bool staged) {
  return staged ? WireEnd{"host", {}} : WireEnd{memory.kind, memory.device};
}

// The entry of exactly this device counts before that of the whole kind.
Viability Registers(const NicCapability& nic, const WireEnd& target, const NodeCapability& node) {
  const NicMemory* found = nullptr;
  for (const NicMemory& memory : nic.memories) {
    if (memory.kind != target.kind) continue;
    if (memory.device == target.device) {
      found = &memory;
      break;
    }
    if (memory.device.empty()) found = &memory;
  }
  if (found != nullptr && found->viability.viable) return {};
  if (IsOfProcess(target.kind)) {
    return Viability::No(reasons::kNotApplicable,
                         nic.name + " of " + node.node +
                             " cannot reach memory that only a client's process can reach",
                         ProcessRemedy(target.kind));
  }
  const bool host = target.kind == "host";
  const std::string memory = target.device.empty() ? target.kind + " memory" : target.device;
  const std::string detail = nic.name + " of " + node.node + " cannot register " + memory + ": ";
  return Viability::No(
      host ? reasons::kHostNotPinnable : reasons::kGpuNotPinnable,
      detail + (found == nullptr ? "the device does not support it" : found->viability.detail),
      found == nullptr ? "" : found->viability.remedy);
}

std::vector<Staging> StagingsOf(Shape shape) {
  switch (shape) {
    case Shape::kDirect:
      return {{}};
    case Shape::kBounce:
      return {{.source = true}, {.destination = true}};
    case Shape::kStaged:
      return {{.source = true, .destination = true}};
  }
  return {};
}

// What stands in the way of one use, and at how many ends.
struct Obstacle {
  int ends = 0;
  Viability why;
};

Obstacle ObstacleOf(const NicPair& pair, const Wire& wire, const Ends& ends) {
  const Viability source = Registers(*pair.source, wire.source, ends.source_node);
  const Viability destination =
      Registers(*pair.destination, wire.destination, ends.destination_node);
  if (source.viable && destination.viable) {
    if (const Viability* why = ends.estimates.FindFailure(wire)) return {1, *why};
    const PairResult* probed =
        ends.estimates.FindPair(wire, pair.source->name, pair.destination->name);
    if (probed != nullptr && !probed->viability.viable) return {1, probed->viability};
    return {};
  }
  if (source.viable) return {1, destination};
  if (destination.viable) return {1, source};
  Viability both = source;
  both.detail += "; " + destination.detail;
  return {2, std::move(both)};
}

unsigned Remoteness(const NicPair& pair, const Wire& wire, const Ends& ends) {
  return Remoteness(ends.source_node, wire.source, pair.source->name) +
         Remoteness(ends.destination_node, wire.destination, pair.destination->name);
}

bool Better(const NicPair& a, const NicPair& b, const Wire& wire, const Ends& ends) {
  const Estimates& estimates = ends.estimates;
  const PairResult* one = estimates.FindPair(wire, a.source->name, a.destination->name);
  const PairResult* other = estimates.FindPair(wire, b.source->name, b.destination->name);
  if (one != nullptr && other != nullptr && one->bytes_per_second != other->bytes_per_second) {
    return one->bytes_per_second > other->bytes_per_second;
  }
  if (a.bytes_per_second() != b.bytes_per_second()) {
    return a.bytes_per_second() > b.bytes_per_second();
  }
  if (a.same_rail != b.same_rail) return a.same_rail;
  return Remoteness(a, wire, ends) < Remoteness(b, wire, ends);
}

}  // namespace

uint64_t NicPair::bytes_per_second() const {
  const uint64_t here = source->bytes_per_second;
  const uint64_t there = destination->bytes_per_second;
  if (here == 0 || there == 0) return std::max(here, there);
  return std::min(here, there);
}

std::vector<NicPair> ReachablePairs(const LinkCapability& source,
                                    const LinkCapability& destination) {
  std::vector<NicPair> pairs;
  for (size_t i = 0; i < source.nics.size(); ++i) {
    for (size_t j = 0; j < destination.nics.size(); ++j) {
      const NicCapability& here = source.nics[i];
      const NicCapability& there = destination.nics[j];
      if (!here.viability.viable || !there.viability.viable) continue;
      if (IsWithinHost(here) || IsWithinHost(there)) continue;
      if (IsSockets(here) || IsSockets(there)) continue;
      if (here.fabric == there.fabric) {
        pairs.push_back({&here, &there, here.name == there.name || i == j});
      }
    }
  }
  return pairs;
}

uint64_t FastestWire(const LinkCapability& source, const LinkCapability& destination) {
  uint64_t fastest = 0;
  for (const NicPair& pair : ReachablePairs(source, destination)) {
    if (!pair.emulated()) fastest = std::max(fastest, pair.bytes_per_second());
  }
  return fastest;
}

std::string DescribeFabrics(const LinkCapability& link, const NodeCapability& node) {
  std::string text;
  for (const NicCapability& nic : link.nics) {
    if (!nic.viability.viable) continue;
    if (!text.empty()) text += ", ";
    text += nic.name + " of " + node.node + " is on fabric \"" + nic.fabric + "\"";
  }
  return text;
}

PairChoice ChoosePairs(const Rung& rung, const Ends& ends, const std::string& link,
                       const std::vector<NicPair>& pairs) {
  PairChoice choice;
  Obstacle least{.ends = 3, .why = {}};
  for (const Staging staging : StagingsOf(rung.shape)) {
    const Wire wire{link, TargetOf(ends.source, staging.source),
                    TargetOf(ends.destination, staging.destination)};
    const NicPair* best[2] = {nullptr, nullptr};  // of hardware, emulated
    for (const NicPair& pair : pairs) {
      Obstacle obstacle = ObstacleOf(pair, wire, ends);
      if (obstacle.ends != 0) {
        if (obstacle.ends < least.ends) least = std::move(obstacle);
        continue;
      }
      const NicPair*& held = best[pair.emulated() ? 1 : 0];
      if (held == nullptr || Better(pair, *held, wire, ends)) held = &pair;
    }
    for (const NicPair* pair : best) {
      if (pair != nullptr) choice.uses.push_back({*pair, staging, wire});
    }
  }
  if (choice.uses.empty()) choice.why = std::move(least.why);
  return choice;
}

}  // namespace onecopy::plan
