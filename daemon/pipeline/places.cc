#include "daemon/pipeline/places.h"

#include <algorithm>
#include <cassert>

namespace onecopy::pipeline {
namespace {

// Of a share, for both copies to be busy all the time.
constexpr uint64_t kMinSlots = 8;
// Of a payload, for the first and the last one not to matter.
constexpr uint64_t kMinChunks = 64;

// Of chunks, far more than an honest source has under way at a time.
constexpr size_t kMostAhead = 4096;

// Bytes up to the next multiple of the grain, or as many whole grains as there are.
uint64_t PieceUpTo(uint64_t most, uint64_t position, uint64_t grain) {
  const uint64_t begun = position % grain;
  if (begun != 0) return std::min(most, grain - begun);
  return most < grain ? most : most / grain * grain;
}

}  // namespace

SourceRange::SourceRange(uint64_t at, uint64_t bytes, uint64_t chunk_bytes, LayoutRef layout,
                         Cut cut, uint64_t skip)
    : at_(at),
      bytes_(bytes),
      chunk_bytes_(chunk_bytes),
      layout_(std::move(layout)),
      cut_(cut),
      next_(skip) {
  assert(chunk_bytes > 0 && cut.grain > 0 && skip <= bytes);
}

std::optional<Chunk> SourceRange::Peek() {
  if (next_ == bytes_) return std::nullopt;
  const uint64_t most = std::min(chunk_bytes_, bytes_ - next_);
  return Chunk{next_, PieceUpTo(most, cut_.phase + next_, cut_.grain), 0,
               layout_ == nullptr ? at_ + next_ : at_};
}

void SourceRange::Take(uint64_t bytes) { next_ += bytes; }

std::optional<Chunk> DestinationRange::Reserve(uint64_t offset, uint64_t bytes) {
  assert(offset <= bytes_ && bytes <= bytes_ - offset);
  return Chunk{offset, bytes, 0, layout_ == nullptr ? at_ + offset : at_};
}

void DestinationRange::Fill(const Chunk& chunk) {
  filled_ += chunk.bytes;
  if (chunk.offset != arrived_) {
    if (ahead_.size() < kMostAhead) ahead_[chunk.offset] = chunk.bytes;
    return;
  }
  arrived_ += chunk.bytes;
  while (!ahead_.empty() && ahead_.begin()->first == arrived_) {
    arrived_ += ahead_.begin()->second;
    ahead_.erase(ahead_.begin());
  }
}

uint32_t SlotsTogether(uint64_t slot_bytes, uint32_t slots, uint64_t payload) {
  const uint64_t together =
      std::min<uint64_t>(slots / kMinSlots, payload / (kMinChunks * slot_bytes));
  return static_cast<uint32_t>(std::max<uint64_t>(together, 1));
}

SlotQueue::SlotQueue(SlotShareRef share, uint32_t together)
    : share_(std::move(share)), together_(together) {}

SlotQueue::~SlotQueue() {
  share_->OnMore(nullptr);
  for (const auto& [first, count] : taken_) Return(first, count);
}

void SlotQueue::OnBegin() {
  share_->OnMore([this] { NotifyChange(); });
}

std::optional<Chunk> SlotQueue::Peek() {
  if (full_.empty()) return std::nullopt;
  return full_.front();
}

void SlotQueue::Take([[maybe_unused]] uint64_t bytes) {
  assert(bytes == full_.front().bytes);
  full_.pop_front();
}

void SlotQueue::Release(const Chunk& chunk) {
  const auto taken = taken_.find(chunk.index);
  const uint32_t count = taken->second;
  taken_.erase(taken);
  Return(chunk.index, count);
}

void SlotQueue::Return(uint32_t first, uint32_t count) {
  for (uint32_t i = count; i-- > 0;) share_->Return(first + i);
}

std::optional<Chunk> SlotQueue::Reserve(uint64_t offset, uint64_t bytes) {
  assert(together_ > 1 || bytes <= share_->slot_bytes());
  const auto piece = share_->Take(bytes, together_);
  if (!piece) return std::nullopt;
  taken_[piece->first] = piece->count;
  const uint64_t room = piece->count * share_->slot_bytes();
  return Chunk{offset, std::min(bytes, room), piece->first, share_->at(piece->first)};
}

void SlotQueue::Fill(const Chunk& chunk) { full_.push_back(chunk); }

}  // namespace onecopy::pipeline
