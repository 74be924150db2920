// Places of this node.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "daemon/pipeline/place.h"
#include "daemon/pipeline/slot_share.h"
#include "transport/core/ranges/layout.h"

namespace onecopy::pipeline {

// Where pieces should begin and end: at multiples of `grain`, where the payload begins `phase`
// bytes behind one.
struct Cut {
  uint64_t grain = 1;
  uint64_t phase = 0;
};

// The payload where it lies: `bytes` from `at` on, handed out in pieces of at most `chunk_bytes`.
// Where `cut` says so, whole grains go together, and what is before the first and behind the last
// of them by itself. For the source's memory, and for memory of the peer that is read in place.
// With a layout they lie as that says, from `at` on. The payload's first `skip` bytes are left out.
class SourceRange final : public Source {
 public:
  SourceRange(uint64_t at, uint64_t bytes, uint64_t chunk_bytes, LayoutRef layout = nullptr,
              Cut cut = {}, uint64_t skip = 0);

  std::optional<Chunk> Peek() override;
  void Take(uint64_t bytes) override;
  void Release(const Chunk&) override {}

 private:
  const uint64_t at_;
  const uint64_t bytes_;
  const uint64_t chunk_bytes_;
  const LayoutRef layout_;
  const Cut cut_;
  uint64_t next_;
};

// The memory in which the payload ends: there is always room. Its first `arrived` bytes are there
// already.
class DestinationRange final : public Destination {
 public:
  DestinationRange(uint64_t at, uint64_t bytes, LayoutRef layout = nullptr, uint64_t arrived = 0)
      : at_(at), bytes_(bytes), layout_(std::move(layout)), filled_(arrived), arrived_(arrived) {}

  std::optional<Chunk> Reserve(uint64_t offset, uint64_t bytes) override;
  void Fill(const Chunk& chunk) override;
  bool Complete() const override { return filled_ == bytes_; }
  uint64_t arrived() const override { return arrived_; }

 private:
  const uint64_t at_;
  const uint64_t bytes_;
  const LayoutRef layout_;
  uint64_t filled_;
  uint64_t arrived_;
  // What came before its turn: where it begins, and its bytes. Bounded, as the peer chooses the
  // order: what is left out has not `arrived`.
  std::map<uint64_t, uint64_t> ahead_;
};

// How many neighbouring slots make one chunk, where they are free, for a payload that still has
// many chunks of that size: a copy engine pauses between two copies.
uint32_t SlotsTogether(uint64_t slot_bytes, uint32_t slots, uint64_t payload);

// A ring of slots between two stages of one node: what is full is moved on, what was moved on is
// free.
class SlotQueue final : public Between {
 public:
  // `together`: how many neighbouring slots a chunk may take, if it can be claimed in part.
  explicit SlotQueue(SlotShareRef share, uint32_t together = 1);
  ~SlotQueue() override;

  std::optional<Chunk> Peek() override;
  void Take(uint64_t bytes) override;
  void Release(const Chunk& chunk) override;
  std::optional<Chunk> Reserve(uint64_t offset, uint64_t bytes) override;
  void Fill(const Chunk& chunk) override;

 private:
  void OnBegin() override;
  void Return(uint32_t first, uint32_t count);

  const SlotShareRef share_;
  const uint32_t together_;
  std::map<uint32_t, uint32_t> taken_;  // runs of slots in use: the first, and how many
  std::deque<Chunk> full_;
};

}  // namespace onecopy::pipeline
