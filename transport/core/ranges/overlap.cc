#include "transport/core/ranges/overlap.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

namespace onecopy {
namespace {

__extension__ using Wide = unsigned __int128;  // what two 64-bit numbers multiply to

// The least x with low <= factor * x mod modulus <= high, if there is one; low <= high < modulus.
// Each round halves the modulus at least every second time, as Euclid's algorithm does.
bool FirstInWindow(uint64_t factor, uint64_t modulus, uint64_t low, uint64_t high, uint64_t* x) {
  if (low == 0) {
    *x = 0;
    return true;
  }
  if (factor == 0) return false;
  const uint64_t rounds = (low - 1) / factor + 1;
  if (Wide{rounds} * factor <= high) {
    *x = rounds;
    return true;
  }
  // No multiple lies in the window before it wraps, so neither end is one.
  uint64_t wraps = 0;
  if (!FirstInWindow(modulus % factor, factor, factor - high % factor, factor - low % factor,
                     &wraps)) {
    return false;
  }
  *x = static_cast<uint64_t>((Wide{modulus} * wraps + low - 1) / factor) + 1;
  return true;
}

// Whether [begin, end) has a byte of an element.
bool Meets(const StridedRange& range, uint64_t begin, uint64_t end) {
  if (end <= range.offset || begin >= SoundEnd(range)) return false;
  if (range.count == 1) return true;
  // The first element that ends after `begin`.
  uint64_t element = 0;
  if (begin >= range.offset + range.bytes) {
    element = (begin - range.offset - range.bytes) / range.stride + 1;
  }
  return element < range.count && range.offset + element * range.stride < end;
}

// Both have several elements.
bool StridesOverlap(const StridedRange& a, const StridedRange& b) {
  // b's last element by itself; before its end each element of b has a whole stride.
  const uint64_t last = b.offset + (b.count - 1) * b.stride;
  if (Meets(a, last, last + b.bytes)) return true;
  // a's elements whose last byte lies at or after b's first one, and before b's last element.
  uint64_t first = 0;
  if (a.offset + a.bytes <= b.offset) {
    first = (b.offset - a.offset - a.bytes) / a.stride + 1;
  }
  if (first >= a.count) return false;
  const uint64_t tail = a.offset + first * a.stride + a.bytes - 1;  // its last byte
  if (tail >= last) return false;
  const uint64_t elements = std::min(a.count - first, (last - 1 - tail) / a.stride + 1);
  // Such an element meets b where its last byte lies less than both lengths behind the beginning of
  // one of b's strides.
  if (b.stride - b.bytes < a.bytes) return true;
  const uint64_t window = a.bytes + b.bytes - 1;  // at most the stride minus one
  const uint64_t phase = (tail - b.offset) % b.stride;
  if (phase < window) return true;
  uint64_t x = 0;
  return FirstInWindow(a.stride % b.stride, b.stride, b.stride - phase,
                       b.stride - phase + window - 1, &x) &&
         x < elements;
}

// Of something with a number.
struct Interval {
  uint64_t offset = 0;
  uint64_t end = 0;
  uint32_t number = 0;
};

uint64_t OffsetOf(const Interval& one) { return one.offset; }
uint64_t OffsetOf(uint64_t offset) { return offset; }

// By their offsets, in a few passes over all of them: std::sort takes several times as long for a
// hundred thousand.
template <typename Item>
void SortByOffset(std::vector<Item>& items) {
  constexpr unsigned kDigit = 11;
  constexpr size_t kFew = 1024;
  const auto before = [](const Item& a, const Item& b) { return OffsetOf(a) < OffsetOf(b); };
  if (std::is_sorted(items.begin(), items.end(), before)) return;
  if (items.size() < kFew) return std::sort(items.begin(), items.end(), before);
  uint64_t greatest = 0;
  for (const Item& one : items) greatest = std::max(greatest, OffsetOf(one));
  std::vector<Item> sorted(items.size());
  for (unsigned shift = 0; shift < 64 && greatest >> shift != 0; shift += kDigit) {
    std::array<uint32_t, (1U << kDigit) + 1> places{};
    const auto digit = [shift](const Item& one) {
      return static_cast<size_t>(OffsetOf(one) >> shift) & ((1U << kDigit) - 1);
    };
    for (const Item& one : items) ++places[digit(one) + 1];
    for (size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
    for (const Item& one : items) sorted[places[digit(one)]++] = one;
    items.swap(sorted);
  }
}

// Blocks of one grid: whether a cell is taken twice. Nothing where they are not on one, or where
// the grid is so large that sorting is quicker.
std::optional<bool> AreApartOnGrid(std::span<const uint64_t> offsets, uint64_t bytes) {
  constexpr uint64_t kCellsEach = 64;
  const auto [first, last] = std::minmax_element(offsets.begin(), offsets.end());
  const uint64_t base = *first;
  const uint64_t cells = (*last - base) / bytes + 1;
  if (cells > offsets.size() * kCellsEach) return std::nullopt;
  const bool is_power = std::has_single_bit(bytes);
  const int shift = std::countr_zero(bytes);
  std::vector<uint64_t> taken(cells / 64 + 1);
  for (const uint64_t offset : offsets) {
    const uint64_t at = offset - base;
    const uint64_t cell = is_power ? at >> shift : at / bytes;
    if (cell * bytes != at) return std::nullopt;
    uint64_t& word = taken[cell / 64];
    const uint64_t bit = uint64_t{1} << cell % 64;
    if ((word & bit) != 0) return false;
    word |= bit;
  }
  return true;
}

// Goes through the intervals by their beginnings, and has `compare` called with the numbers of each
// two that overlap. Gives up where these are more than the `comparisons`, which it uses up.
template <typename Compare>
CommonByte Sweep(std::vector<Interval> intervals, uint64_t* comparisons, Compare compare) {
  SortByOffset(intervals);
  std::vector<Interval> open;  // that end after the current one's beginning
  for (const Interval& now : intervals) {
    std::erase_if(open, [&](const Interval& one) { return one.end <= now.offset; });
    if (open.size() > *comparisons) {
      *comparisons = 0;
      return CommonByte::kGaveUp;
    }
    *comparisons -= open.size();
    for (const Interval& one : open) {
      const CommonByte said = compare(one.number, now.number);
      if (said != CommonByte::kNone) return said;
    }
    open.push_back(now);
  }
  return CommonByte::kNone;
}

// Each with each whose extent overlaps its own.
struct EachWithEach {
  std::span<const PlacedRange> ranges;
  bool of_two_sides;

  CommonByte operator()(uint32_t a, uint32_t b) const {
    if (of_two_sides && ranges[a].side == ranges[b].side) return CommonByte::kNone;
    return Overlap(ranges[a].range, ranges[b].range) ? CommonByte::kFound : CommonByte::kNone;
  }

  CommonByte Run(uint64_t* comparisons) const {
    std::vector<Interval> extents(ranges.size());
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      extents[i] = {ranges[i].range.offset, ranges[i].end(), i};
    }
    return Sweep(std::move(extents), comparisons, *this);
  }
};

// Columns of arrays: their extents all overlap, but elements that lie at different places of one
// stride never meet, however many there are.
class Columns {
 public:
  Columns(std::span<const PlacedRange> ranges, bool of_two_sides)
      : compare_{ranges, of_two_sides}, order_(ranges.size()) {
    for (uint32_t i = 0; i < ranges.size(); ++i) order_[i] = i;
    const auto key = [&](uint32_t i) {
      return std::pair(ranges[i].range.count == 1 ? 0 : ranges[i].range.stride,
                       ranges[i].range.offset);
    };
    std::sort(order_.begin(), order_.end(),
              [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (size_t i = 0; i < order_.size(); ++i) Add(ranges[order_[i]], i);
  }

  CommonByte Run(uint64_t* comparisons) const {
    std::vector<Interval> extents;
    for (const Array& array : arrays_) {
      if (array.stride != 0) {
        const CommonByte inside = InsideOf(array, comparisons);
        if (inside != CommonByte::kNone) return inside;
      }
      extents.push_back({array.offset, array.end, static_cast<uint32_t>(extents.size())});
    }
    return Sweep(std::move(extents), comparisons, [&](uint32_t a, uint32_t b) {
      return Between(arrays_[a], arrays_[b], comparisons);
    });
  }

 private:
  // Ranges of one stride whose extents overlap, or one range without a stride.
  struct Array {
    uint64_t stride;
    uint64_t offset;
    uint64_t end;
    size_t first;  // in order_
    size_t size;
  };

  void Add(const PlacedRange& one, size_t place) {
    const uint64_t stride = one.range.count == 1 ? 0 : one.range.stride;
    if (stride != 0 && !arrays_.empty()) {
      Array& last = arrays_.back();
      if (last.stride == stride && one.range.offset < last.end) {
        last.end = std::max(last.end, one.end());
        ++last.size;
        return;
      }
    }
    arrays_.push_back({stride, one.range.offset, one.end(), place, 1});
  }

  CommonByte InsideOf(const Array& array, uint64_t* comparisons) const {
    std::vector<Interval> places;  // within a stride
    for (size_t i = array.first; i < array.first + array.size; ++i) {
      const StridedRange& range = compare_.ranges[order_[i]].range;
      const uint64_t begin = range.offset % array.stride;
      const uint64_t here = std::min(range.bytes, array.stride - begin);
      places.push_back({begin, begin + here, order_[i]});
      if (here < range.bytes) places.push_back({0, range.bytes - here, order_[i]});
    }
    return Sweep(std::move(places), comparisons, compare_);
  }

  CommonByte Between(const Array& a, const Array& b, uint64_t* comparisons) const {
    if (a.size > *comparisons / b.size) return CommonByte::kGaveUp;
    *comparisons -= a.size * b.size;
    for (size_t i = a.first; i < a.first + a.size; ++i) {
      for (size_t j = b.first; j < b.first + b.size; ++j) {
        const CommonByte said = compare_(order_[i], order_[j]);
        if (said != CommonByte::kNone) return said;
      }
    }
    return CommonByte::kNone;
  }

  const EachWithEach compare_;
  std::vector<uint32_t> order_;  // of the ranges, by stride and beginning
  std::vector<Array> arrays_;
};

// Element by element, where these are few enough for what is `left`; else nothing. Interleaved
// strides have extents that all overlap, while their elements may not.
std::vector<PlacedRange> Elements(std::span<const PlacedRange> ranges, uint64_t* left) {
  uint64_t elements = 0;
  for (const PlacedRange& one : ranges) {
    if (one.range.count > *left - elements) return {};
    elements += one.range.count;
  }
  *left -= elements;
  std::vector<PlacedRange> single;
  single.reserve(elements);
  for (const PlacedRange& one : ranges) {
    for (uint64_t i = 0; i < one.range.count; ++i) {
      single.push_back(
          {{one.range.offset + i * one.range.stride, one.range.bytes, 0, 1}, one.side});
    }
  }
  return single;
}

}  // namespace

bool Overlap(const StridedRange& a, const StridedRange& b) {
  if (a.offset >= SoundEnd(b) || b.offset >= SoundEnd(a)) return false;
  if (a.count == 1) return Meets(b, a.offset, a.offset + a.bytes);
  if (b.count == 1) return Meets(a, b.offset, b.offset + b.bytes);
  return StridesOverlap(a, b);
}

bool OneAfterAnother(std::span<const StridedRange> ranges) {
  std::vector<Interval> extents(ranges.size());
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    extents[i] = {ranges[i].offset, SoundEnd(ranges[i]), i};
  }
  SortByOffset(extents);
  const auto meet = [](const Interval& a, const Interval& b) { return a.end > b.offset; };
  return std::adjacent_find(extents.begin(), extents.end(), meet) == extents.end();
}

bool AreApart(std::span<const uint64_t> offsets, uint64_t bytes) {
  if (offsets.empty()) return true;
  if (const auto apart = AreApartOnGrid(offsets, bytes)) return *apart;
  std::vector<uint64_t> sorted(offsets.begin(), offsets.end());
  SortByOffset(sorted);
  const auto meet = [bytes](uint64_t a, uint64_t b) { return b - a < bytes; };
  return std::adjacent_find(sorted.begin(), sorted.end(), meet) == sorted.end();
}

CommonByte FindCommonByte(std::span<const PlacedRange> ranges, bool of_two_sides,
                          OverlapBudget* budget) {
  CommonByte said = EachWithEach{ranges, of_two_sides}.Run(&budget->comparisons);
  if (said != CommonByte::kGaveUp) return said;
  said = Columns(ranges, of_two_sides).Run(&budget->column_comparisons);
  if (said != CommonByte::kGaveUp) return said;
  const std::vector<PlacedRange> elements = Elements(ranges, &budget->elements);
  if (elements.empty()) return CommonByte::kGaveUp;
  return EachWithEach{elements, of_two_sides}.Run(&budget->element_comparisons);
}

}  // namespace onecopy
