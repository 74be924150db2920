#include "daemon/engine/transfers/carried.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

template <typename T, typename Same>
void AddBytes(const std::vector<T>& more, const Same& same, std::vector<T>* all) {
  for (const T& one : more) {
    const auto found =
        std::find_if(all->begin(), all->end(), [&](const T& other) { return same(one, other); });
    if (found == all->end()) {
      all->push_back(one);
    } else {
      found->bytes += one.bytes;
    }
  }
}

bool SameStep(const ExecutedStep& a, const ExecutedStep& b) { return a.step == b.step; }
bool SameLane(const LaneBytes& a, const LaneBytes& b) {
  return a.device == b.device && a.peer == b.peer;
}

}  // namespace

void Carried::Add(const MoveOutcome& outcome) {
  AddBytes(outcome.steps, SameStep, &steps);
  AddBytes(outcome.lanes, SameLane, &lanes);
  seconds += outcome.seconds;
  held_seconds += outcome.held_seconds;
  if (outcome.began) ++tries;
}

void Carried::AddTo(Receipt* receipt) const {
  AddBytes(steps, SameStep, &receipt->steps);
  AddBytes(lanes, SameLane, &receipt->lanes);
  receipt->seconds += seconds;
}

}  // namespace onecopy::engine
