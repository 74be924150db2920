#include "transport/core/ranges/layout.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

constexpr uint64_t kMaxNumber = std::numeric_limits<uint64_t>::max();

__extension__ using Wide = unsigned __int128;  // what two 64-bit numbers multiply to

// Names a range, once something is wrong with it: there may be very many.
struct Name {
  const std::string& what;
  uint64_t number;

  std::string ToString() const { return what + " range " + std::to_string(number); }
};

Status TooLong(const Name& name) {
  return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
          name.ToString() + " ends beyond what 64 bits can count"};
}

// Whether the range from its first byte to the end of its last one, and its bytes, have a number.
bool EndHasNumber(const StridedRange& range) {
  const Wide end = Wide{range.offset} + Wide{range.count - 1} * range.stride + range.bytes;
  if (range.count > 1 && Wide{range.count - 1} * range.stride > kMaxNumber) return false;
  return end <= kMaxNumber && Wide{range.count} * range.bytes <= kMaxNumber;
}

// What is checked for each of very many; CheckOne says what is wrong.
bool IsSound(const StridedRange& range) {
  return range.bytes > 0 && range.count > 0 && (range.count == 1 || range.stride >= range.bytes) &&
         EndHasNumber(range);
}

Status CheckOne(const StridedRange& range, const Name& name) {
  if (range.bytes == 0 || range.count == 0) {
    return {Code::kInvalidArgument, reasons::kBadSize, name.ToString() + " has no bytes",
            "leave it out on both sides"};
  }
  if (range.count > 1 && range.stride < range.bytes) {
    return {Code::kInvalidArgument, reasons::kRangesOverlap,
            name.ToString() + " has elements of " + std::to_string(range.bytes) + " bytes every " +
                std::to_string(range.stride) + " bytes, which overlap",
            "make the stride at least as long as an element"};
  }
  return EndHasNumber(range) ? OkStatus() : TooLong(name);
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

Status RefuseOverlap(const std::vector<PlacedRange>& pieces, bool of_two_sides,
                     const std::string& what, OverlapBudget* budget) {
  OverlapBudget own;
  switch (FindCommonByte(pieces, of_two_sides, budget == nullptr ? &own : budget)) {
    case CommonByte::kNone:
      return OkStatus();
    case CommonByte::kFound:
      return {Code::kInvalidArgument, reasons::kRangesOverlap, what,
              "choose ranges that share no byte"};
    case CommonByte::kGaveUp:
      break;
  }
  return {Code::kResourceExhausted, reasons::kQuota,
          "the ranges are interleaved so much that it would take too long to check whether " + what,
          "split the request"};
}

void PlacePieces(const PlacedLayout& placed, uint32_t side, std::vector<PlacedRange>* pieces) {
  if (placed.layout == nullptr) {
    if (placed.bytes == 0) return;
    pieces->push_back({{placed.at, placed.bytes, 0, 1}, side});
    return;
  }
  for (StridedRange piece : placed.layout->pieces()) {
    piece.offset += placed.at;
    pieces->push_back({piece, side});
  }
}

// The bytes from the first one of some layouts to their last one, gaps included.
ByteRange HullOf(const PlacedLayout& placed) {
  return {placed.at, placed.layout == nullptr ? placed.bytes : placed.layout->extent().bytes};
}
ByteRange HullOf(std::span<const PlacedLayout> layouts) {
  uint64_t first = kMaxNumber;
  uint64_t end = 0;
  for (const PlacedLayout& one : layouts) {
    const ByteRange hull = HullOf(one);
    if (hull.bytes == 0) continue;
    first = std::min(first, hull.offset);
    end = std::max(end, hull.offset + hull.bytes);
  }
  return end == 0 ? ByteRange() : ByteRange{first, end - first};
}

// Adds the pieces of those layouts whose hull meets `others`.
void PlaceThoseThatMeet(const ByteRange& others, std::span<const PlacedLayout> layouts,
                        uint32_t side, std::vector<PlacedRange>* pieces) {
  size_t count = pieces->size();
  for (const PlacedLayout& one : layouts) {
    if (Overlap(HullOf(one), others)) count += one.layout == nullptr ? 1 : one.layout->size();
  }
  pieces->reserve(count);
  for (const PlacedLayout& one : layouts) {
    if (Overlap(HullOf(one), others)) PlacePieces(one, side, pieces);
  }
}

}  // namespace

template <typename Ranges>
Result<Layout> Layout::MakeOf(const Ranges& ranges, const std::string& what) {
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
    const Name name{what, ranges.number(i)};
    if (!IsSound(ranges[i])) return CheckOne(ranges[i], name);
    const StridedRange range = Plain(ranges[i]);
    const uint64_t bytes = range.bytes * range.count;
    if (bytes > kMaxNumber - layout.bytes_) return TooLong(name);
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

namespace {

struct OneEnd {
  std::span<const StridedRange> ranges;

  size_t size() const { return ranges.size(); }
  bool empty() const { return ranges.empty(); }
  const StridedRange& operator[](size_t i) const { return ranges[i]; }
  uint64_t number(size_t i) const { return i; }
};

struct EndOfPairs {
  std::span<const RangePair> pairs;
  StridedRange RangePair::*end;
  std::span<const uint32_t> numbers;

  size_t size() const { return pairs.size(); }
  bool empty() const { return pairs.empty(); }
  const StridedRange& operator[](size_t i) const { return pairs[i].*end; }
  uint64_t number(size_t i) const { return numbers.empty() ? i : numbers[i]; }
};

struct EqualEnd {
  std::span<const uint64_t> offsets;
  uint64_t bytes;
  std::span<const uint32_t> numbers;

  size_t size() const { return offsets.size(); }
  bool empty() const { return offsets.empty(); }
  StridedRange operator[](size_t i) const { return {offsets[i], bytes, 0, 1}; }
  uint64_t number(size_t i) const { return numbers.empty() ? i : numbers[i]; }
};

size_t CountFollowers(std::span<const uint64_t> offsets, uint64_t bytes) {
  size_t count = 0;
  for (size_t i = 1; i < offsets.size(); ++i) count += offsets[i - 1] + bytes == offsets[i] ? 1 : 0;
  return count;
}

}  // namespace

Result<Layout> Layout::Make(std::span<const StridedRange> ranges, const std::string& what) {
  return MakeOf(OneEnd{ranges}, what);
}

Result<Layout> Layout::Make(std::span<const RangePair> pairs, StridedRange RangePair::*end,
                            const std::string& what, std::span<const uint32_t> numbers) {
  return MakeOf(EndOfPairs{pairs, end, numbers}, what);
}

Result<Layout> Layout::MakeEqual(std::vector<uint64_t> offsets, uint64_t bytes,
                                 const std::string& what, std::span<const uint32_t> numbers) {
  const EqualEnd all{offsets, bytes, numbers};
  const size_t count = offsets.size();
  // With how many there may be, and with what is wrong, the other way deals.
  if (count == 0 || count > kMaxRanges || bytes == 0) return MakeOf(all, what);
  const auto [first, last] = std::minmax_element(offsets.begin(), offsets.end());
  const bool sound = *last <= kMaxNumber - bytes && bytes <= kMaxNumber / count;
  if (!sound || CountFollowers(offsets, bytes) >= count / 2) return MakeOf(all, what);
  Layout layout;
  layout.each_ = bytes;
  layout.bytes_ = bytes * count;
  layout.extent_ = {*first, *last + bytes - *first};
  layout.offsets_ = std::move(offsets);
  for (uint64_t& offset : layout.offsets_) offset -= layout.extent_.offset;
  return layout;
}

size_t Layout::PieceAt(uint64_t payload_offset) const {
  if (each_ != 0) return payload_offset / each_;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), payload_offset);
  return static_cast<size_t>(after - starts_.begin()) - 1;
}

Layout Layout::FromFirstByte() const {
  Layout layout = *this;
  layout.extent_.offset = 0;
  return layout;
}

uint64_t Layout::memory_bytes() const {
  return sizeof *this + pieces_.capacity() * sizeof(StridedRange) +
         (starts_.capacity() + offsets_.capacity()) * sizeof(uint64_t);
}

Status Layout::CheckDisjoint(const std::string& what, OverlapBudget* budget) const {
  if (each_ != 0 ? AreApart(offsets_, each_) : OneAfterAnother(pieces_)) return OkStatus();
  std::vector<PlacedRange> pieces;
  pieces.reserve(size());
  PlacePieces({this, 0, 0}, 0, &pieces);
  return RefuseOverlap(pieces, false, what + " ranges overlap one another", budget);
}

Status CheckApart(const PlacedLayout& a, const PlacedLayout& b, const std::string& what) {
  return CheckApart({&a, 1}, {&b, 1}, what);
}

Status CheckApart(std::span<const PlacedLayout> a, std::span<const PlacedLayout> b,
                  const std::string& what, OverlapBudget* budget) {
  const ByteRange of_a = HullOf(a);
  const ByteRange of_b = HullOf(b);
  if (!Overlap(of_a, of_b)) return OkStatus();  // the common case
  std::vector<PlacedRange> pieces;
  PlaceThoseThatMeet(of_b, a, 0, &pieces);
  PlaceThoseThatMeet(of_a, b, 1, &pieces);
  return RefuseOverlap(pieces, true, what, budget);
}

Status CheckAllApart(std::span<const PlacedLayout> layouts, const std::string& what,
                     OverlapBudget* budget) {
  std::vector<PlacedRange> pieces;
  for (uint32_t i = 0; i < layouts.size(); ++i) PlacePieces(layouts[i], i, &pieces);
  return RefuseOverlap(pieces, true, what, budget);
}

}  // namespace onecopy
