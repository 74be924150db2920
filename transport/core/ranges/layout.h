// Where the bytes of a payload lie in memory that is not one range: pieces, one after the other,
// some of them strided.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "onecopy/range.h"
#include "onecopy/result.h"
#include "transport/core/ranges/overlap.h"

namespace onecopy {

// Immutable, so that it is shared between threads. The payload's bytes are those of the first
// piece, element by element, then those of the second, and so on.
//
// Pieces of one length without strides (blocks of a cache, in any order) are kept as their offsets
// alone: 8 bytes each rather than 40. A hundred thousand pieces are common, and memory that is
// touched for the first time costs more than what is done with it.
class Layout {
 public:
  class Pieces;

  // Ranges as a request has them: checked one by one, and neighbours without a gap joined.
  // INVALID_ARGUMENT for more than kMaxRanges, for one without bytes (BAD_SIZE) and for elements
  // that overlap one another (RANGES_OVERLAP); OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for what does not
  // fit into 64 bits. `what` names them in the text: "source".
  static Result<Layout> Make(std::span<const StridedRange> ranges, const std::string& what);
  // Likewise of one end of pairs. `numbers`: of each pair in what was asked for, as the text names
  // it; empty: as they come.
  static Result<Layout> Make(std::span<const RangePair> pairs, StridedRange RangePair::*end,
                             const std::string& what, std::span<const uint32_t> numbers = {});
  // Likewise of plain ranges of `bytes` bytes each, by their offsets. Neighbours are joined only
  // where that leaves half as many pieces.
  static Result<Layout> MakeEqual(std::vector<uint64_t> offsets, uint64_t bytes,
                                  const std::string& what, std::span<const uint32_t> numbers = {});

  // At least one, each sound; offsets from the layout's first byte on.
  size_t size() const { return each_ == 0 ? pieces_.size() : offsets_.size(); }
  StridedRange piece(size_t i) const {
    return each_ == 0 ? pieces_[i] : StridedRange{offsets_[i], each_, 0, 1};
  }
  Pieces pieces() const;
  // The payload's bytes before a piece.
  uint64_t start(size_t i) const { return each_ == 0 ? starts_[i] : i * each_; }
  // The number of the piece that has that byte of the payload.
  size_t PieceAt(uint64_t payload_offset) const;
  // Whether a piece follows the one before it without a gap.
  bool FollowsOn(size_t i) const {
    return each_ != 0 && i > 0 && offsets_[i - 1] + each_ == offsets_[i];
  }
  // As they are kept: the offsets of pieces of one length, which is not 0; or the pieces.
  uint64_t equal_bytes() const { return each_; }
  std::span<const uint64_t> equal_offsets() const { return offsets_; }
  std::span<const StridedRange> unlike_pieces() const { return pieces_; }
  // The same, as if its first byte were the first of what it lies in.
  Layout FromFirstByte() const;

  uint64_t bytes() const { return bytes_; }  // of the payload
  // From its first byte to its last one, where the caller's offsets count.
  const ByteRange& extent() const { return extent_; }
  bool contiguous() const { return size() == 1 && piece(0).count == 1; }
  // Of the smallest element among the strided pieces; 0 where there are none.
  uint64_t least_element() const { return least_element_; }
  uint64_t memory_bytes() const;  // that it takes

  // INVALID_ARGUMENT (RANGES_OVERLAP) where a byte belongs to two pieces; RESOURCE_EXHAUSTED
  // (QUOTA) where pieces are interleaved so much that it would take too long to tell: more than is
  // left of the budget, or than one of its own.
  Status CheckDisjoint(const std::string& what, OverlapBudget* budget = nullptr) const;

 private:
  Layout() = default;

  template <typename Ranges>
  static Result<Layout> MakeOf(const Ranges& ranges, const std::string& what);

  std::vector<StridedRange> pieces_;  // empty where they are kept as offsets
  std::vector<uint64_t> starts_;
  std::vector<uint64_t> offsets_;
  uint64_t each_ = 0;  // of pieces that are kept as offsets
  uint64_t bytes_ = 0;
  ByteRange extent_;
  uint64_t least_element_ = 0;
};

// The pieces in their order, each made when it is looked at.
class Layout::Pieces {
 public:
  class Iterator {
   public:
    Iterator(const Layout& layout, size_t at) : layout_(&layout), at_(at) {}
    StridedRange operator*() const { return layout_->piece(at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const Layout* layout_;
    size_t at_;
  };

  explicit Pieces(const Layout& layout) : layout_(&layout) {}
  Iterator begin() const { return {*layout_, 0}; }
  Iterator end() const { return {*layout_, layout_->size()}; }

 private:
  const Layout* layout_;
};

inline Layout::Pieces Layout::pieces() const { return Pieces(*this); }

using LayoutRef = std::shared_ptr<const Layout>;  // null: the bytes are one range

// The same between two layouts in one buffer, whose first bytes lie at `at_a` and `at_b`; null: one
// range of `bytes`. Their own pieces may overlap.
struct PlacedLayout {
  const Layout* layout = nullptr;
  uint64_t at = 0;
  uint64_t bytes = 0;  // counts without a layout
};
Status CheckApart(const PlacedLayout& a, const PlacedLayout& b, const std::string& what);
// The same between what is on one side and what is on the other, any number in one buffer.
Status CheckApart(std::span<const PlacedLayout> a, std::span<const PlacedLayout> b,
                  const std::string& what, OverlapBudget* budget = nullptr);
// The same of any number in one buffer, each against each.
Status CheckAllApart(std::span<const PlacedLayout> layouts, const std::string& what,
                     OverlapBudget* budget = nullptr);

}  // namespace onecopy
