#include "daemon/engine/rings/ring_tally.h"

#include <utility>

namespace onecopy::engine {
namespace {

Direction DirectionOf(const RouteRecord& route) {
  if (route.peer.empty()) return Direction::kInside;
  return route.push.empty() ? Direction::kIn : Direction::kOut;
}

Status WhyFailed(const ring::Route* route, ring::Outcome outcome) {
  if (route != nullptr && outcome == ring::Outcome::kRevoked && route->revoked()) {
    return route->why();
  }
  if (route != nullptr && outcome == ring::Outcome::kFailed) return route->failure();
  return StatusOf(outcome);
}

// What has been counted since; `counted` is then what there is now.
ring::Counts::Values Take(const ring::Counts& counts, ring::Counts::Values& counted) {
  const ring::Counts::Values now = counts.Read();
  ring::Counts::Values more = now.Since(counted);
  counted = now;
  return more;
}

void AddFailures(const ring::Counts::Values& more, const ring::Route* route, const Plan* plan,
                 Direction direction, Tally& tally) {
  for (size_t i = 0; i < ring::kOutcomes; ++i) {
    if (more.failed[i] == 0) continue;
    const auto outcome = static_cast<ring::Outcome>(i);
    tally.AddRingFailures(plan, direction, WhyFailed(route, outcome), more.failed[i]);
  }
}

}  // namespace

void AddRoute(RouteRecord& route, Tally& tally) {
  const ring::Counts::Values more = Take(route.route->counts, route.counted);
  const Plan& plan = route.given.plan;
  const Direction direction = DirectionOf(route);
  if (more.succeeded() > 0) {
    const StepList steps = route.steps == nullptr ? nullptr : route.steps->Get();
    const size_t copies = steps == nullptr ? plan.steps.size() : steps->size();
    tally.AddRing({&plan, route.peer, direction, static_cast<uint32_t>(copies)},
                  {more.durations, more.sizes});
  }
  AddFailures(more, route.route.get(), &plan, direction, tally);
}

void AddRing(ClientRing& ring, Tally& tally, bool all) {
  for (auto& [serial, route] : ring.routes) {
    if (all || !route.settled) AddRoute(route, tally);
  }
  const ring::Counts::Values more = Take(ring.journal->without_route(), ring.counted);
  AddFailures(more, nullptr, nullptr, Direction::kInside, tally);
}

}  // namespace onecopy::engine
