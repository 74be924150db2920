#include "daemon/engine/peering/introductions.h"

#include <algorithm>
#include <utility>

#include "transport/os/machine.h"

namespace onecopy::engine {
void Introductions::Await(const std::string& node, bool first) {
  if (under_way_.contains(node)) return;
  const auto known = std::find(waiting_.begin(), waiting_.end(), node);
  if (known != waiting_.end()) {
    if (!first) return;
    waiting_.erase(known);
  }
  if (first) {
    waiting_.push_front(node);
  } else {
    const auto place = static_cast<ptrdiff_t>(os::RandomNumber() % (waiting_.size() + 1));
    waiting_.insert(waiting_.begin() + place, node);
  }
  Next();
}

void Introductions::Ended(const std::string& node) {
  std::erase(waiting_, node);
  if (const auto turn = under_way_.extract(node)) context_.loop.CancelTimer(turn.mapped());
  Next();
}

void Introductions::Next() {
  if (std::exchange(choosing_, true)) return;
  while (under_way_.size() < kMost && !waiting_.empty()) {
    const std::string node = std::move(waiting_.front());
    waiting_.pop_front();
    under_way_[node] = context_.loop.RunAfter(context_.options.introduction_turn, [this, node] {
      under_way_.erase(node);
      Next();
    });
    greet_(node);
  }
  choosing_ = false;
}

void Introductions::Stop() {
  waiting_.clear();
  for (const auto& [node, turn] : under_way_) context_.loop.CancelTimer(turn);
  under_way_.clear();
}

}  // namespace onecopy::engine
