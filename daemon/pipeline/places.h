// Places of this node.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/pipeline/place.h"
#include "transport/core/layout.h"

namespace onecopy::pipeline {

// The payload where it lies: `bytes` from `at` on, handed out in pieces of at most `chunk_bytes`.
// For the source's memory, and for memory of the peer that is read in place. With a layout they lie
// as that says, from `at` on.
class SourceRange final : public Place {
 public:
  SourceRange(uint64_t at, uint64_t bytes, uint64_t chunk_bytes, LayoutRef layout = nullptr);

  std::optional<Cell> Peek() override;
  void Take() override;
  void Release(const Cell&) override {}
  std::optional<Cell> Reserve(uint64_t, uint64_t) override { return std::nullopt; }
  void Fill(const Cell&) override {}
  bool Complete() const override { return next_ == bytes_; }

 private:
  const uint64_t at_;
  const uint64_t bytes_;
  const uint64_t chunk_bytes_;
  const LayoutRef layout_;
  uint64_t next_ = 0;
};

// The memory in which the payload ends: there is always room.
class DestinationRange final : public Place {
 public:
  DestinationRange(uint64_t at, uint64_t bytes, LayoutRef layout = nullptr)
      : at_(at), bytes_(bytes), layout_(std::move(layout)) {}

  std::optional<Cell> Peek() override { return std::nullopt; }
  void Take() override {}
  void Release(const Cell&) override {}
  std::optional<Cell> Reserve(uint64_t offset, uint64_t bytes) override;
  void Fill(const Cell& cell) override { filled_ += cell.bytes; }
  bool Complete() const override { return filled_ == bytes_; }

 private:
  const uint64_t at_;
  const uint64_t bytes_;
  const LayoutRef layout_;
  uint64_t filled_ = 0;
};

// Slots of a pinned slab that this transfer may use; given back when the last copy of the lease
// goes.
struct SlotLease {
  RegionRef slab;
  uint64_t slot_bytes = 0;
  uint64_t first_byte = 0;         // of slot 0 of the lease, in the slab
  uint32_t slots = 0;              // one after the other from there
  std::shared_ptr<void> returner;  // gives the slots back
};

// The same memory in fewer and longer slots, for a payload that still has many chunks of that size:
// a copy engine pauses between two copies.
SlotLease InLongSlots(SlotLease lease, uint64_t payload);

// The numbers of a lease's slots, the one to be used first at the end.
std::vector<uint32_t> AllSlots(const SlotLease& lease);

// A ring of slots between two stages of one node: what is full is moved on, what was moved on is
// free.
class SlotRing final : public Place {
 public:
  explicit SlotRing(SlotLease lease);

  std::optional<Cell> Peek() override;
  void Take() override;
  void Release(const Cell& cell) override;
  std::optional<Cell> Reserve(uint64_t offset, uint64_t bytes) override;
  void Fill(const Cell& cell) override;
  bool Complete() const override { return false; }

 private:
  const SlotLease lease_;
  std::vector<uint32_t> free_;
  std::deque<Cell> full_;
};

}  // namespace onecopy::pipeline
