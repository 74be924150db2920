#include "daemon/pipeline/places.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace onecopy::pipeline {
namespace {

// Of a lease, for both copies to be busy all the time.
constexpr uint64_t kLeastSlots = 8;
// Of a payload, for the first and the last one not to matter.
constexpr uint64_t kLeastChunks = 64;

}  // namespace

SourceRange::SourceRange(uint64_t at, uint64_t bytes, uint64_t chunk_bytes, LayoutRef layout)
    : at_(at), bytes_(bytes), chunk_bytes_(chunk_bytes), layout_(std::move(layout)) {
  assert(chunk_bytes > 0);
}

std::optional<Cell> SourceRange::Peek() {
  if (next_ == bytes_) return std::nullopt;
  return Cell{next_, std::min(chunk_bytes_, bytes_ - next_), 0,
              layout_ == nullptr ? at_ + next_ : at_};
}

void SourceRange::Take() { next_ += std::min(chunk_bytes_, bytes_ - next_); }

std::optional<Cell> DestinationRange::Reserve(uint64_t offset, uint64_t bytes) {
  assert(offset <= bytes_ && bytes <= bytes_ - offset);
  return Cell{offset, bytes, 0, layout_ == nullptr ? at_ + offset : at_};
}

SlotLease InLongSlots(SlotLease lease, uint64_t payload) {
  const uint64_t together =
      std::min(lease.slots / kLeastSlots, payload / (kLeastChunks * lease.slot_bytes));
  if (together < 2) return lease;
  lease.slot_bytes *= together;
  lease.slots = static_cast<uint32_t>(lease.slots / together);
  return lease;
}

std::vector<uint32_t> AllSlots(const SlotLease& lease) {
  std::vector<uint32_t> slots(lease.slots);
  std::iota(slots.rbegin(), slots.rend(), 0U);  // the last element is taken first: slot 0
  return slots;
}

SlotRing::SlotRing(SlotLease lease) : lease_(std::move(lease)), free_(AllSlots(lease_)) {}

std::optional<Cell> SlotRing::Peek() {
  if (full_.empty()) return std::nullopt;
  return full_.front();
}

void SlotRing::Take() { full_.pop_front(); }

void SlotRing::Release(const Cell& cell) { free_.push_back(cell.index); }

std::optional<Cell> SlotRing::Reserve(uint64_t offset, uint64_t bytes) {
  assert(bytes <= lease_.slot_bytes);
  if (free_.empty()) return std::nullopt;
  const uint32_t slot =
      free_.back();  // the one used last is the one most likely still in the cache
  free_.pop_back();
  return Cell{offset, bytes, slot, lease_.first_byte + slot * lease_.slot_bytes};
}

void SlotRing::Fill(const Cell& cell) { full_.push_back(cell); }

}  // namespace onecopy::pipeline
