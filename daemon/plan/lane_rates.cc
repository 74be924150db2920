#include "daemon/plan/lane_rates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

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

std::vector<unsigned> RemotenessOf(const Wire& wire, const std::vector<LaneInfo>& lanes,
                                   const NodeCapability& source,
                                   const NodeCapability& destination) {
  std::vector<unsigned> steps;
  for (const LaneInfo& lane : lanes) {
    steps.push_back(Remoteness(source, wire.source, lane.peer_device) +
                    Remoteness(destination, wire.destination, lane.device));
  }
  return steps;
}

// Of the lanes that may be used at all.
std::vector<bool> LeastRemote(const std::vector<unsigned>& steps,
                              const std::vector<double>& rates) {
  const auto usable = [&](size_t i) { return i >= rates.size() || rates[i] > 0; };
  unsigned least = std::numeric_limits<unsigned>::max();
  for (size_t i = 0; i < steps.size(); ++i) {
    if (usable(i)) least = std::min(least, steps[i]);
  }
  std::vector<bool> nearest;
  for (size_t i = 0; i < steps.size(); ++i) nearest.push_back(usable(i) && steps[i] == least);
  return nearest;
}

// What these lanes carry; several may be of one pair of devices, which carries what it does.
double CarriedBy(const std::vector<LaneInfo>& lanes, const std::vector<double>& rates,
                 const std::vector<bool>& which) {
  std::map<std::pair<std::string, std::string>, double> pairs;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (which[i]) pairs[{lanes[i].peer_device, lanes[i].device}] = rates[i];
  }
  double sum = 0;
  for (const auto& [pair, rate] : pairs) sum += rate;
  return sum;
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
    if (failed[i]) continue;
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
    if (!failed[i] && rates[i] <= 0) rates[i] = std::max(least, 1.0);
  }
  const std::vector<unsigned> steps = RemotenessOf(wire, lanes, source, destination);
  const std::vector<bool> near = LeastRemote(steps, rates);
  const Estimate* const all = estimates.FindWire(wire);
  const double seen = std::max(best, all != nullptr && all->measured ? all->bytes_per_second : 0);
  const double nearest = CarriedBy(lanes, rates, near);
  const bool near_do = nearest >= kEqualRate * seen;
  // Where a near pair is as fast as any, the others have what the near ones leave, and no more.
  double near_best = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (near[i]) near_best = std::max(near_best, rates[i]);
  }
  std::vector<bool> far = near;
  far.flip();
  const double rest = CarriedBy(lanes, rates, far);
  const double share =
      near_best < kEqualRate * best || rest <= 0 ? 1 : std::min(1.0, (seen - nearest) / rest);
  for (size_t i = 0; i < lanes.size(); ++i) {
    double& rate = rates[i];
    if (failed[i]) continue;
    if (near_do && !near[i]) {
      rate = kLastResort;
      continue;
    }
    if (rate >= kEqualRate * best) rate = std::max(best, 1.0);
    rate *= (1 - kPerStep * steps[i]) * (near[i] ? 1 : share);
  }
  return rates;
}

std::vector<bool> NearestLanes(const Wire& wire, const std::vector<LaneInfo>& lanes,
                               const std::vector<double>& rates, const NodeCapability& source,
                               const NodeCapability& destination) {
  return LeastRemote(RemotenessOf(wire, lanes, source, destination), rates);
}

}  // namespace onecopy::plan
