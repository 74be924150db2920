#include "daemon/pipeline/slot_share.h"

#include <algorithm>
#include <utility>

namespace onecopy::pipeline {

void SlotShare::Give(std::vector<uint32_t> slots, uint32_t limit) {
  executor_.Post([self = shared_from_this(), slots = std::move(slots), limit] {
    for (const uint32_t slot : slots) self->held_.emplace(slot, 0);
    // The lowest is used first.
    self->free_.insert(self->free_.end(), slots.rbegin(), slots.rend());
    self->limit_ = limit;
    self->wanting_ = self->returned_ = false;
    if (self->closed_) return self->NoMore();
    if (self->more_) self->more_();
    self->KeepToLimit();
  });
}

void SlotShare::SetLimit(uint32_t limit) {
  executor_.Post([self = shared_from_this(), limit] {
    self->limit_ = limit;
    self->KeepToLimit();
  });
}

// Who has not come yet will come soon, or close the share: to take its turn away would only have it
// wait for another one.
void SlotShare::KeepToLimit() {
  if (!begun_ && !closed_) return;
  while (held_.size() > limit_ && !free_.empty()) {
    const uint32_t coldest = free_.front();
    free_.erase(free_.begin());
    Drop(coldest);
  }
  SendBack();
}

void SlotShare::Close() {
  executor_.Post([self = shared_from_this()] { self->NoMore(); });
}

void SlotShare::NoMore() {
  const bool first = !std::exchange(closed_, true);
  for (const uint32_t slot : std::exchange(free_, {})) Drop(slot);
  if (first || !back_.empty()) pool_.give_back(std::exchange(back_, {}), true);
}

void SlotShare::OnMore(std::function<void()> more) {
  if (more) begun_ = true;
  more_ = std::move(more);
}

std::optional<SlotShare::Piece> SlotShare::Take(uint64_t bytes, uint32_t together) {
  begun_ = true;
  if (free_.empty()) {
    Want();
    return std::nullopt;
  }
  const uint64_t needed = std::max<uint64_t>((bytes + slot_bytes_ - 1) / slot_bytes_, 1);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(needed, together));
  Piece best;
  // The one used last is the one most likely still in the cache.
  for (auto slot = free_.rbegin(); slot != free_.rend() && best.count < most; ++slot) {
    uint32_t count = 1;
    while (count < most && std::find(free_.begin(), free_.end(), *slot + count) != free_.end()) {
      ++count;
    }
    if (count > best.count) best = {*slot, count};
  }
  for (uint32_t i = 0; i < best.count; ++i) {
    const uint32_t slot = best.first + i;
    free_.erase(std::find(free_.begin(), free_.end(), slot));
    const uint64_t left = bytes - std::min(bytes, i * slot_bytes_);
    held_[slot] = std::max(held_[slot], std::min(left, slot_bytes_));
  }
  return best;
}

void SlotShare::Return(uint32_t slot) {
  returned_ = true;
  if (held_.size() <= limit_ && !closed_) return free_.push_back(slot);
  Drop(slot);
  SendBack();
}

// Where none of them comes back, more would only wait with them.
void SlotShare::Want() {
  if (wanting_ || closed_ || (!held_.empty() && !returned_)) return;
  wanting_ = true;
  pool_.want();
}

void SlotShare::Drop(uint32_t slot) {
  const auto held = held_.find(slot);
  back_.push_back({slot, held->second});
  held_.erase(held);
}

void SlotShare::SendBack() {
  if (!back_.empty()) pool_.give_back(std::exchange(back_, {}), closed_);
}

}  // namespace onecopy::pipeline
