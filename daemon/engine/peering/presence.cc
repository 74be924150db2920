#include "daemon/engine/peering/presence.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kLook{1};
// Longer than between two heartbeats, with which a node calls that is there.
constexpr std::chrono::seconds kSilence{7};
// Of one that did not answer its last heartbeat: a cut of the network may be short.
constexpr std::chrono::seconds kLostSilence{4};

}  // namespace

void Presence::Heard(const std::string& node) {
  if (until_.size() >= kMost && !until_.contains(node)) return;
  Await(node, std::max<os::Clock::duration>(kSilence, heartbeat_ * 3 / 2));
}

void Presence::Lost(const std::string& node) { Await(node, kLostSilence); }

void Presence::Await(const std::string& node, os::Clock::duration silence) {
  until_[node] = os::Clock::now() + silence;
  if (timer_ == 0) timer_ = loop_.RunAfter(kLook, [this] { Look(); });
}

void Presence::Look() {
  timer_ = 0;
  const os::Clock::time_point now = os::Clock::now();
  std::vector<std::string> gone;
  for (const auto& [node, until] : until_) {
    if (until <= now) gone.push_back(node);
  }
  for (const std::string& node : gone) {
    until_.erase(node);
    if (gone_) gone_(node);
  }
  if (!until_.empty()) timer_ = loop_.RunAfter(kLook, [this] { Look(); });
}

void Presence::Stop() {
  loop_.CancelTimer(std::exchange(timer_, 0));
  until_.clear();
}

}  // namespace onecopy::engine
