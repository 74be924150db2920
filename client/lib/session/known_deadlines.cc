#include "client/lib/session/known_deadlines.h"

#include <algorithm>

namespace onecopy::client {
namespace {

// Nobody waits any more for what ended before that.
constexpr std::chrono::minutes kForgotten{10};

}  // namespace

CallLimit::Time KnownDeadlines::For(const TransferRequest& request) const {
  return request.part_of.empty() ? CallLimit::For(request.deadline) : Find(request.part_of);
}

void KnownDeadlines::Note(const TransferId& id, const CallLimit::Time& limit) {
  if (!limit) return;
  const MutexLock lock(mutex_);
  if (limits_.size() >= sweep_at_) {
    const auto before = CallLimit::Clock::now() - kForgotten;
    std::erase_if(limits_, [&](const auto& each) { return each.second < before; });
    sweep_at_ = std::max(kSweepAt, 2 * limits_.size());
  }
  limits_[id] = *limit;
}

CallLimit::Time KnownDeadlines::Find(const TransferId& id) const {
  const MutexLock lock(mutex_);
  const auto found = limits_.find(id);
  return found == limits_.end() ? CallLimit::Time() : found->second;
}

}  // namespace onecopy::client
