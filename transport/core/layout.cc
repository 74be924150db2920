#include "transport/core/layout.h"

#include <algorithm>
#include <limits>
#include <string>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

constexpr uint64_t kMaxNumber = std::numeric_limits<uint64_t>::max();
// Comparisons of two pieces before the search for common bytes is given up.
constexpr uint64_t kMaxComparisons = uint64_t{1} << 17;

__extension__ using Wide = unsigned __int128;  // what two 64-bit numbers multiply to

std::string Name(const std::string& what, size_t index) {
  return what + " range " + std::to_string(index);
}

Status TooLong(const std::string& name) {
  return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
          name + " ends beyond what 64 bits can count"};
}

// Of the range from its first byte to the end of its last one; nothing where that has no number.
Result<uint64_t> EndOf(const StridedRange& range, const std::string& name) {
  const Wide end = Wide{range.offset} + Wide{range.count - 1} * range.stride + range.bytes;
  if (range.count > 1 && Wide{range.count - 1} * range.stride > kMaxNumber) return TooLong(name);
  if (end > kMaxNumber || Wide{range.count} * range.bytes > kMaxNumber) return TooLong(name);
  return static_cast<uint64_t>(end);
}

uint64_t SoundEnd(const StridedRange& range) {
  return range.offset + (range.count - 1) * range.stride + range.bytes;
}

Status CheckOne(const StridedRange& range, const std::string& name) {
  if (range.bytes == 0 || range.count == 0) {
    return {Code::kInvalidArgument, reasons::kBadSize, name + " has no bytes",
            "leave it out on both sides"};
  }
  if (range.count > 1 && range.stride < range.bytes) {
    return {Code::kInvalidArgument, reasons::kRangesOverlap,
            name + " has elements of " + std::to_string(range.bytes) + " bytes every " +
                std::to_string(range.stride) + " bytes, which overlap",
            "make the stride at least as long as an element"};
  }
  return EndOf(range, name).status();
}

// Where it is one range after all, as one.
StridedRange Plain(StridedRange range) {
  if (range.count > 1 && range.stride == range.bytes) {
    range.bytes *= range.count;
    range.count = 1;
  }
  if (range.count == 1) range.stride = 0;
  return range;
}

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

struct Placed {
  StridedRange range;
  uint64_t end = 0;
  int side = 0;
};

// Goes through the pieces by their beginnings, and compares those whose extents overlap and whose
// sides differ, or all of them. False, with `gave_up`, where that takes too long.
bool HaveCommonByte(std::vector<Placed>& pieces, bool of_two_sides, bool* gave_up) {
  const auto before = [](const Placed& a, const Placed& b) {
    return a.range.offset < b.range.offset;
  };
  if (!std::is_sorted(pieces.begin(), pieces.end(), before)) {
    std::sort(pieces.begin(), pieces.end(), before);
  }
  std::vector<const Placed*> open;  // that end after the current one's beginning
  uint64_t comparisons = 0;
  for (const Placed& piece : pieces) {
    std::erase_if(open, [&](const Placed* one) { return one->end <= piece.range.offset; });
    comparisons += open.size();
    if (comparisons > kMaxComparisons) {
      *gave_up = true;
      return false;
    }
    for (const Placed* one : open) {
      if (of_two_sides && one->side == piece.side) continue;
      if (Overlap(one->range, piece.range)) return true;
    }
    open.push_back(&piece);
  }
  return false;
}

Status RefuseOverlap(std::vector<Placed> pieces, bool of_two_sides, const std::string& what) {
  bool gave_up = false;
  if (HaveCommonByte(pieces, of_two_sides, &gave_up)) {
    return {Code::kInvalidArgument, reasons::kRangesOverlap, what,
            "choose ranges that have no byte in common"};
  }
  if (!gave_up) return OkStatus();
  return {Code::kResourceExhausted, reasons::kQuota,
          "the ranges are interleaved so much that it would take too long to see whether " + what,
          "split the request"};
}

void PlacePieces(const PlacedLayout& placed, int side, std::vector<Placed>* pieces) {
  if (placed.layout == nullptr) {
    if (placed.bytes == 0) return;
    pieces->push_back({{placed.at, placed.bytes, 0, 1}, placed.at + placed.bytes, side});
    return;
  }
  for (StridedRange piece : placed.layout->pieces()) {
    piece.offset += placed.at;
    pieces->push_back({piece, SoundEnd(piece), side});
  }
}

}  // namespace

bool Overlap(const StridedRange& a, const StridedRange& b) {
  if (a.offset >= SoundEnd(b) || b.offset >= SoundEnd(a)) return false;
  if (a.count == 1) return Meets(b, a.offset, a.offset + a.bytes);
  if (b.count == 1) return Meets(a, b.offset, b.offset + b.bytes);
  return StridesOverlap(a, b);
}

Result<Layout> Layout::Make(std::span<const StridedRange> ranges, const std::string& what) {
  if (ranges.empty() || ranges.size() > kMaxRanges) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  std::to_string(ranges.size()) + " " + what + " ranges; a transfer takes 1 to " +
                      std::to_string(kMaxRanges),
                  "split the request");
  }
  Layout layout;
  layout.pieces_.reserve(ranges.size());
  layout.starts_.reserve(ranges.size());
  uint64_t first = kMaxNumber;
  uint64_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ONECOPY_RETURN_IF_ERROR(CheckOne(ranges[i], Name(what, i)));
    const StridedRange range = Plain(ranges[i]);
    const uint64_t bytes = range.bytes * range.count;
    if (bytes > kMaxNumber - layout.bytes_) return TooLong(Name(what, i));
    first = std::min(first, range.offset);
    end = std::max(end, SoundEnd(range));
    StridedRange* const before = layout.pieces_.empty() ? nullptr : &layout.pieces_.back();
    const bool plain = range.count == 1 && before != nullptr && before->count == 1;
    if (plain && before->offset + before->bytes == range.offset) {
      before->bytes += range.bytes;
    } else {
      layout.pieces_.push_back(range);
      layout.starts_.push_back(layout.bytes_);
    }
    layout.bytes_ += bytes;
  }
  layout.extent_ = {first, end - first};
  for (StridedRange& piece : layout.pieces_) {
    piece.offset -= first;
    if (piece.count == 1) continue;
    const uint64_t least = layout.least_element_;
    layout.least_element_ = least == 0 ? piece.bytes : std::min(least, piece.bytes);
  }
  return layout;
}

Status Layout::CheckDisjoint(const std::string& what) const {
  std::vector<Placed> pieces;
  pieces.reserve(pieces_.size());
  PlacePieces({this, 0, 0}, 0, &pieces);
  return RefuseOverlap(std::move(pieces), false, what + " ranges overlap one another");
}

Status CheckApart(const PlacedLayout& a, const PlacedLayout& b, const std::string& what) {
  std::vector<Placed> pieces;
  PlacePieces(a, 0, &pieces);
  PlacePieces(b, 1, &pieces);
  return RefuseOverlap(std::move(pieces), true, what);
}

}  // namespace onecopy
