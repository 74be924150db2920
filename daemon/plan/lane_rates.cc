#include "daemon/plan/lane_rates.h"

#include <algorithm>
#include <limits>

namespace onecopy::plan {
namespace {

// Of a rate, per step of distance: less than any difference between rates that are not equal.
constexpr double kPerStep = 0.001;

double SpeedOf(const NodeCapability& node, const std::string& link, const std::string& nic) {
  const LinkCapability* found = node.FindLink(link);
  if (found == nullptr) return 0;
  for (const NicCapability& one : found->nics) {
    if (one.name == nic) return static_cast<double>(one.bytes_per_second);
  }
  return 0;
}

}  // namespace

unsigned Remoteness(const NodeCapability& node, const WireEnd& memory, const std::string& nic) {
  if (memory.device.empty()) return 0;
  const MemoryCapability* gpu = node.FindMemory(memory.kind, memory.device);
  if (gpu == nullptr || gpu->address.empty()) return static_cast<unsigned>(Distance::kUnknown);
  return static_cast<unsigned>(node.topology.Between(gpu->address, nic));
}

std::vector<double> LaneRates(const Wire& wire, const std::vector<LaneInfo>& lanes,
                              const NodeCapability& source, const NodeCapability& destination,
                              const Estimates& estimates) {
  std::vector<double> rates;
  std::vector<bool> failed;
  bool probed = false;
  for (const LaneInfo& lane : lanes) {
    const PairResult* found = estimates.FindPair(wire, lane.peer_device, lane.device);
    failed.push_back(found != nullptr && !found->viability.viable);
    rates.push_back(found == nullptr || failed.back() ? 0 : found->bytes_per_second);
    probed = probed || rates.back() > 0;
  }
  for (size_t i = 0; i < lanes.size() && !probed; ++i) {
    const double here = SpeedOf(destination, wire.link, lanes[i].device);
    const double there = SpeedOf(source, wire.link, lanes[i].peer_device);
    rates[i] = here <= 0 || there <= 0 ? std::max(here, there) : std::min(here, there);
  }
  const double best = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  // Of which nothing is known is taken for the slowest that is known: what ports say of themselves
  // and what was measured do not compare.
  double least = best;
  for (const double rate : rates) least = rate > 0 ? std::min(least, rate) : least;
  for (size_t i = 0; i < lanes.size(); ++i) {
    double& rate = rates[i];
    if (failed[i]) {
      rate = 0;
      continue;
    }
    if (rate <= 0) rate = std::max(least, 1.0);
    if (rate >= kEqualRate * best) rate = std::max(best, 1.0);
    const unsigned steps = Remoteness(source, wire.source, lanes[i].peer_device) +
                           Remoteness(destination, wire.destination, lanes[i].device);
    rate *= 1 - kPerStep * steps;
  }
  return rates;
}

std::vector<bool> NearestLanes(const Wire& wire, const std::vector<LaneInfo>& lanes,
                               const std::vector<double>& rates, const NodeCapability& source,
                               const NodeCapability& destination) {
  std::vector<unsigned> steps;
  unsigned least = std::numeric_limits<unsigned>::max();
  for (size_t i = 0; i < lanes.size(); ++i) {
    steps.push_back(Remoteness(source, wire.source, lanes[i].peer_device) +
                    Remoteness(destination, wire.destination, lanes[i].device));
    if (i >= rates.size() || rates[i] > 0) least = std::min(least, steps.back());
  }
  std::vector<bool> nearest;
  for (size_t i = 0; i < lanes.size(); ++i) {
    nearest.push_back(steps[i] == least && (i >= rates.size() || rates[i] > 0));
  }
  return nearest;
}

}  // namespace onecopy::plan
