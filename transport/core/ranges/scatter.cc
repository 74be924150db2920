#include "transport/core/ranges/scatter.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

// Goes through one side of the payload.
class Walker {
 public:
  Walker(const ScatterEnd& end, uint64_t offset) : layout_(end.layout), at_(end.at) {
    if (layout_ == nullptr) return;
    number_ = layout_->PieceAt(offset);
    piece_ = layout_->piece(number_);
    const uint64_t inside = offset - layout_->start(number_);
    element_ = inside / piece_.bytes;
    within_ = inside % piece_.bytes;
  }

  uint64_t at() const {
    if (layout_ == nullptr) return at_;
    return at_ + piece_.offset + element_ * piece_.stride + within_;
  }
  // Bytes that follow without a gap, at most `most`.
  uint64_t run(uint64_t most) const {
    return layout_ == nullptr ? most : std::min(most, piece_.bytes - within_);
  }
  // Whether whole elements of a strided piece follow; how long they are, how far apart, how many.
  bool strided() const { return layout_ != nullptr && piece_.count > 1 && within_ == 0; }
  uint64_t element_bytes() const { return piece_.bytes; }
  uint64_t stride() const { return piece_.stride; }
  uint64_t elements() const { return piece_.count - element_; }

  void Advance(uint64_t bytes) {
    if (layout_ == nullptr) {
      at_ += bytes;
      return;
    }
    within_ += bytes;
    element_ += within_ / piece_.bytes;
    within_ %= piece_.bytes;
    if (element_ < piece_.count) return;
    if (++number_ < layout_->size()) piece_ = layout_->piece(number_);
    element_ = 0;
  }

 private:
  const Layout* const layout_;
  uint64_t at_;
  size_t number_ = 0;
  StridedRange piece_;  // of that number
  uint64_t element_ = 0;
  uint64_t within_ = 0;  // bytes inside the element
};

// The longest copy from where both are.
StridedCopy Next(const Walker& from, const Walker& to, uint64_t most) {
  StridedCopy copy{from.at(), to.at(), std::min(from.run(most), to.run(most)), 0, 0, 1};
  const bool both = from.strided() && to.strided() && from.element_bytes() == to.element_bytes();
  if (both) {
    copy.count = std::min({from.elements(), to.elements(), most / from.element_bytes()});
    copy.from_stride = from.stride();
    copy.to_stride = to.stride();
  } else if (from.strided() && from.element_bytes() == copy.bytes) {
    copy.count = std::min(from.elements(), to.run(most) / copy.bytes);
    copy.from_stride = from.stride();
    copy.to_stride = copy.bytes;
  } else if (to.strided() && to.element_bytes() == copy.bytes) {
    copy.count = std::min(to.elements(), from.run(most) / copy.bytes);
    copy.from_stride = copy.bytes;
    copy.to_stride = to.stride();
  }
  if (copy.count <= 1) {
    copy.count = 1;
    copy.from_stride = copy.to_stride = 0;
  }
  return copy;
}

// Whether one side of a copy, which begins at `at`, lies inside `total` bytes.
bool IsInside(const StridedCopy& copy, uint64_t at, uint64_t stride, uint64_t total) {
  if (copy.count == 0) return at <= total;
  if (at > total || copy.bytes > total - at) return false;
  const uint64_t room = total - at - copy.bytes;  // for the beginnings of the others
  return copy.count == 1 || stride == 0 || copy.count - 1 <= room / stride;
}

// Places in the payload where a piece begins on either side, as if all neighbours were joined.
uint64_t MergedRanges(const Layout& source, const Layout& destination) {
  uint64_t begin = 0;
  for (size_t i = 0, k = 0; i < source.size() || k < destination.size();) {
    const uint64_t of_source = i < source.size() ? source.start(i) : source.bytes();
    const uint64_t of_destination = k < destination.size() ? destination.start(k) : source.bytes();
    bool begins = false;
    if (of_source <= of_destination) begins = !source.FollowsOn(i++);
    if (of_destination <= of_source) begins = !destination.FollowsOn(k++) || begins;
    begin += begins ? 1 : 0;
  }
  return begin;
}

// Where an end's pieces are kept as offsets, or are one range, a copy takes no more than an
// addition. Nothing where neither has such pieces, or where they do not pair up.
class EqualCopies {
 public:
  static std::optional<EqualCopies> Find(const ScatterEnd& from, const ScatterEnd& to) {
    uint64_t each = 0;
    for (const Layout* layout : {from.layout, to.layout}) {
      if (layout == nullptr) continue;
      const uint64_t here = layout->equal_bytes();
      if (here == 0 || (each != 0 && here != each)) return std::nullopt;
      each = here;
    }
    if (each == 0) return std::nullopt;
    return EqualCopies(from, to, each);
  }

  std::vector<StridedCopy> Make(uint64_t offset, uint64_t bytes) const {
    std::vector<StridedCopy> copies;
    copies.reserve(bytes / each_ + 2);
    const uint64_t end = offset + bytes;
    for (uint64_t at = offset; at < end;) {
      const uint64_t piece = at / each_;
      const uint64_t next = std::min(end, (piece + 1) * each_);
      const uint64_t from = At(from_, piece, offset) + (at - piece * each_);
      const uint64_t to = At(to_, piece, offset) + (at - piece * each_);
      StridedCopy* const before = copies.empty() ? nullptr : &copies.back();
      if (before != nullptr && before->from + before->bytes == from &&
          before->to + before->bytes == to) {
        before->bytes += next - at;
      } else {
        copies.push_back({.from = from, .to = to, .bytes = next - at});
      }
      at = next;
    }
    return copies;
  }

 private:
  EqualCopies(const ScatterEnd& from, const ScatterEnd& to, uint64_t each)
      : from_(from), to_(to), each_(each) {}

  // Where a piece begins; of bytes in a row, which begin at the payload's `offset`, where it would.
  uint64_t At(const ScatterEnd& end, uint64_t piece, uint64_t offset) const {
    if (end.layout != nullptr) return end.at + end.layout->equal_offsets()[piece];
    return end.at + piece * each_ - offset;
  }

  ScatterEnd from_;
  ScatterEnd to_;
  uint64_t each_;
};

Status UnlikeSizes(uint64_t number, uint64_t leaves, uint64_t arrives) {
  return {Code::kInvalidArgument, reasons::kSizeMismatch,
          "source range " + std::to_string(number) + " has " + std::to_string(leaves) +
              " bytes, destination range " + std::to_string(number) + " has " +
              std::to_string(arrives)};
}

}  // namespace

Result<ScatterRef> Scatter::Make(std::span<const StridedRange> source,
                                 std::span<const StridedRange> destination) {
  if (source.size() != destination.size()) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(source.size()) + " source ranges and " +
                      std::to_string(destination.size()) + " destination ranges",
                  "give one destination range for each source range");
  }
  ONECOPY_ASSIGN_OR_RETURN(Layout from, Layout::Make(source, "source"));
  ONECOPY_ASSIGN_OR_RETURN(Layout to, Layout::Make(destination, "destination"));
  for (size_t i = 0; i < source.size(); ++i) {
    const uint64_t leaves = source[i].bytes * source[i].count;
    const uint64_t arrives = destination[i].bytes * destination[i].count;
    if (leaves != arrives) return UnlikeSizes(i, leaves, arrives);
  }
  return Join(std::move(from), std::move(to), source.size());
}

Result<ScatterRef> Scatter::Make(std::span<const RangePair> pairs,
                                 std::span<const uint32_t> numbers, uint64_t asked,
                                 OverlapBudget* budget) {
  ONECOPY_ASSIGN_OR_RETURN(Layout from, Layout::Make(pairs, &RangePair::source, "source", numbers));
  ONECOPY_ASSIGN_OR_RETURN(Layout to,
                           Layout::Make(pairs, &RangePair::destination, "destination", numbers));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [source, destination, source_buffer, destination_buffer] = pairs[i];
    const uint64_t leaves = source.bytes * source.count;
    const uint64_t arrives = destination.bytes * destination.count;
    if (leaves != arrives) return UnlikeSizes(numbers.empty() ? i : numbers[i], leaves, arrives);
  }
  return Join(std::move(from), std::move(to), asked == 0 ? pairs.size() : asked, budget);
}

Result<ScatterRef> Scatter::MakeEqual(std::vector<uint64_t> sources,
                                      std::vector<uint64_t> destinations, uint64_t bytes,
                                      std::span<const uint32_t> numbers, uint64_t asked,
                                      OverlapBudget* budget) {
  const size_t count = sources.size();
  if (count != destinations.size()) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(count) + " source ranges and " +
                      std::to_string(destinations.size()) + " destination ranges",
                  "give each source range its destination range");
  }
  ONECOPY_ASSIGN_OR_RETURN(Layout from,
                           Layout::MakeEqual(std::move(sources), bytes, "source", numbers));
  ONECOPY_ASSIGN_OR_RETURN(
      Layout to, Layout::MakeEqual(std::move(destinations), bytes, "destination", numbers));
  return Join(std::move(from), std::move(to), asked == 0 ? count : asked, budget);
}

Result<ScatterRef> Scatter::Join(Layout source, Layout destination, uint64_t ranges,
                                 OverlapBudget* budget) {
  if (source.bytes() != destination.bytes()) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  "the source's ranges have " + std::to_string(source.bytes()) +
                      " bytes, the destination's " + std::to_string(destination.bytes()));
  }
  ONECOPY_RETURN_IF_ERROR(destination.CheckDisjoint("destination", budget));
  auto scatter =
      std::make_shared<Scatter>(Scatter{std::move(source), std::move(destination), ranges, 0});
  scatter->merged_ranges = MergedRanges(scatter->source, scatter->destination);
  return ScatterRef(std::move(scatter));
}

std::vector<StridedCopy> CopiesOf(const ScatterEnd& from, const ScatterEnd& to, uint64_t offset,
                                  uint64_t bytes) {
  std::vector<StridedCopy> copies;
  if (bytes == 0) return copies;
  if (const auto equal = EqualCopies::Find(from, to)) return equal->Make(offset, bytes);
  Walker source(from, offset);
  Walker destination(to, offset);
  while (bytes > 0) {
    copies.push_back(Next(source, destination, bytes));
    const uint64_t moved = copies.back().payload();
    assert(moved > 0);
    source.Advance(moved);
    destination.Advance(moved);
    bytes -= moved;
  }
  return copies;
}

uint64_t PayloadOf(std::span<const StridedCopy> copies) {
  uint64_t bytes = 0;
  for (const StridedCopy& copy : copies) bytes += copy.payload();
  return bytes;
}

uint64_t CostOf(std::span<const StridedCopy> copies) {
  constexpr uint64_t kElement = 64;
  uint64_t cost = 0;
  for (const StridedCopy& copy : copies) cost += copy.payload() + copy.count * kElement;
  return cost;
}

Status CheckInside(std::span<const StridedCopy> copies, uint64_t from_bytes, uint64_t to_bytes) {
  for (const StridedCopy& copy : copies) {
    if (IsInside(copy, copy.from, copy.from_stride, from_bytes) &&
        IsInside(copy, copy.to, copy.to_stride, to_bytes)) {
      continue;
    }
    return {Code::kInternal, reasons::kRangeOutOfBuffer,
            "a copy of " + std::to_string(copy.count) + " x " + std::to_string(copy.bytes) +
                " bytes from byte " + std::to_string(copy.from) + " of " +
                std::to_string(from_bytes) + " to byte " + std::to_string(copy.to) + " of " +
                std::to_string(to_bytes) + " reaches outside its memory and was not made",
            "please report this bug: it should have been refused earlier"};
  }
  return OkStatus();
}

namespace {

// Of one length, of a chunk: their list has 192 KiB, which malloc keeps for the next one. A longer
// one is mapped again each time, and its page faults take longer than all that is done with it.
constexpr uint64_t kMostPieces = 4096;

}  // namespace

uint64_t ChunkFor(const Layout* from, const Layout* to, uint64_t chunk_bytes,
                  uint64_t most_copies) {
  uint64_t chunk = chunk_bytes;
  for (const Layout* layout : {from, to}) {
    const uint64_t each = layout == nullptr ? 0 : layout->equal_bytes();
    if (each != 0 && each < chunk_bytes / kMostPieces) chunk = std::min(chunk, each * kMostPieces);
  }
  const uint64_t a = from == nullptr ? 0 : from->least_element();
  const uint64_t b = to == nullptr ? 0 : to->least_element();
  if (a == 0 || b == 0) return chunk;
  const uint64_t element = std::min(a, b);
  if (element >= chunk / most_copies) return chunk;
  return element * most_copies;
}

}  // namespace onecopy
