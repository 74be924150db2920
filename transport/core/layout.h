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
#include "transport/core/overlap.h"

namespace onecopy {

// Immutable, so that it is shared between threads. The payload's bytes are those of the first
// piece, element by element, then those of the second, and so on.
class Layout {
 public:
  // Ranges as somebody asks for them: checked one by one, and neighbours joined that follow each
  // other without a gap. INVALID_ARGUMENT for more than kMaxRanges, for one without bytes
  // (BAD_SIZE) and for elements that overlap one another (RANGES_OVERLAP); OUT_OF_RANGE
  // (RANGE_OUT_OF_BUFFER) for what does not fit into 64 bits. `what` names them in the text:
  // "source".
  static Result<Layout> Make(std::span<const StridedRange> ranges, const std::string& what);
  // Likewise of one end of pairs. `numbers`: of each pair in what was asked for, as the text names
  // it; empty: as they come.
  static Result<Layout> Make(std::span<const RangePair> pairs, StridedRange RangePair::*end,
                             const std::string& what, std::span<const uint32_t> numbers = {});

  // At least one, each sound; offsets from the layout's first byte on.
  const std::vector<StridedRange>& pieces() const { return pieces_; }
  // By piece: the payload's bytes before it.
  const std::vector<uint64_t>& starts() const { return starts_; }
  uint64_t bytes() const { return bytes_; }  // of the payload
  // From its first byte to its last one, where the caller's offsets count.
  const ByteRange& extent() const { return extent_; }
  bool contiguous() const { return pieces_.size() == 1 && pieces_[0].count == 1; }
  // Of the smallest element among the strided pieces; 0 where there are none.
  uint64_t least_element() const { return least_element_; }

  // INVALID_ARGUMENT (RANGES_OVERLAP) where a byte belongs to two pieces; RESOURCE_EXHAUSTED
  // (QUOTA) where pieces are interleaved so much that it would take too long to tell: more than is
  // left of the budget, or than one of its own.
  Status CheckDisjoint(const std::string& what, OverlapBudget* budget = nullptr) const;

 private:
  Layout() = default;

  template <typename Ranges>
  static Result<Layout> MakeOf(const Ranges& ranges, const std::string& what);

  std::vector<StridedRange> pieces_;
  std::vector<uint64_t> starts_;
  uint64_t bytes_ = 0;
  ByteRange extent_;
  uint64_t least_element_ = 0;
};

using LayoutRef = std::shared_ptr<const Layout>;  // null: the bytes are one range

// The same between two layouts in one buffer, whose first bytes lie at `at_a` and `at_b`; null: one
// range of `bytes`. Their own pieces may overlap.
struct PlacedLayout {
  const Layout* layout = nullptr;
  uint64_t at = 0;
  uint64_t bytes = 0;  // counts where there is no layout
};
Status CheckApart(const PlacedLayout& a, const PlacedLayout& b, const std::string& what);
// The same between what is on one side and what is on the other, any number in one buffer.
Status CheckApart(std::span<const PlacedLayout> a, std::span<const PlacedLayout> b,
                  const std::string& what, OverlapBudget* budget = nullptr);
// The same of any number in one buffer, each against each.
Status CheckAllApart(std::span<const PlacedLayout> layouts, const std::string& what,
                     OverlapBudget* budget = nullptr);

}  // namespace onecopy
