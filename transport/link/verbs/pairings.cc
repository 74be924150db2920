#include "transport/link/verbs/pairings.h"

#include <chrono>

namespace onecopy::verbs {
namespace {

// A first message takes milliseconds, and a peer that was not reached dials again after longer.
constexpr std::chrono::milliseconds kComesUp{500};
constexpr size_t kMaxPairs = 16384;  // peers choose their ports' names

}  // namespace

void Pairings::Try(const std::string& peer, const std::string& theirs, const std::string& mine) {
  const MutexLock lock(mutex_);
  if (tried_.size() >= kMaxPairs) tried_.clear();
  tried_.try_emplace({peer, theirs, mine}, os::Clock::now());
}

void Pairings::CameUp(const std::string& peer, const std::string& theirs, const std::string& mine) {
  const MutexLock lock(mutex_);
  tried_.erase({peer, theirs, mine});
}

bool Pairings::Failed(const std::string& peer, const std::string& theirs,
                      const std::string& mine) const {
  const MutexLock lock(mutex_);
  const auto found = tried_.find({peer, theirs, mine});
  return found != tried_.end() && os::Clock::now() - found->second >= kComesUp;
}

void Pairings::Forget(const std::string& peer, const std::string& theirs) {
  const MutexLock lock(mutex_);
  const auto first = tried_.lower_bound({peer, theirs, {}});
  auto last = first;
  while (last != tried_.end() && std::get<0>(last->first) == peer &&
         std::get<1>(last->first) == theirs) {
    ++last;
  }
  tried_.erase(first, last);
}

}  // namespace onecopy::verbs
