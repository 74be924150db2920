#include "daemon/engine/peering/peer_room.h"

#include <algorithm>
#include <utility>

namespace onecopy::engine {

bool PeerRoom::Make() {
  if (places_.size() < most_) return true;
  if (hidden_.empty()) return false;
  const std::set<std::string> awaited = calls_.awaited();
  while (places_.size() >= most_) {
    const auto longest = std::find_if(hidden_.begin(), hidden_.end(), [&](const auto& hidden) {
      return !awaited.contains(hidden.second);
    });
    if (longest == hidden_.end()) return false;
    calls_.remove(std::string(longest->second), "has gone, and another node has its place");
  }
  return true;
}

void PeerRoom::Leave(const std::string& name) {
  Show(name);
  places_.erase(name);
  TakeLeftOutSoon();
}

bool PeerRoom::Hide(const std::string& name) {
  Place& place = places_.at(name);
  if (place.hidden != 0) return false;
  place.hidden = next_hidden_++;
  hidden_.emplace(place.hidden, name);
  LeaveLater(name);
  TakeLeftOutSoon();
  return true;
}

void PeerRoom::LeaveLater(const std::string& name) {
  places_.at(name).due = loop_.RunAfter(keep_, [this, name] {
    if (calls_.awaited().contains(name)) return LeaveLater(name);
    calls_.remove(name, "has gone, and is not discovered");
  });
}

void PeerRoom::Show(const std::string& name) {
  const auto found = places_.find(name);
  if (found == places_.end()) return;
  hidden_.erase(std::exchange(found->second.hidden, 0));
  loop_.CancelTimer(std::exchange(found->second.due, 0));
}

bool PeerRoom::IsHidden(const std::string& name) const {
  const auto found = places_.find(name);
  return found != places_.end() && found->second.hidden != 0;
}

// Not at once: the owner may be going through all peers.
void PeerRoom::TakeLeftOutSoon() {
  if (left_out_.empty() || taking_ != 0) return;
  taking_ = loop_.RunAfter(os::Clock::duration(0), [this] {
    taking_ = 0;
    TakeLeftOut();
  });
}

void PeerRoom::TakeLeftOut() {
  while (!left_out_.empty()) {
    const auto [name, address] = *left_out_.begin();
    if (!places_.contains(name) && !Make()) return;
    left_out_.erase(name);
    calls_.take(name, address);
  }
}

void PeerRoom::Stop() {
  left_out_.clear();
  loop_.CancelTimer(std::exchange(taking_, 0));
  for (auto& [name, place] : places_) loop_.CancelTimer(std::exchange(place.due, 0));
}

}  // namespace onecopy::engine
