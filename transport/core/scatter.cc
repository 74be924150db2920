#include "transport/core/scatter.h"

#include <algorithm>
#include <cassert>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

// Goes through one side of the payload.
class Walker {
 public:
  Walker(const ScatterEnd& end, uint64_t offset) : layout_(end.layout), at_(end.at) {
    if (layout_ == nullptr) return;
    const std::vector<uint64_t>& starts = layout_->starts();
    const auto after = std::upper_bound(starts.begin(), starts.end(), offset);
    piece_ = static_cast<size_t>(after - starts.begin()) - 1;
    const uint64_t inside = offset - starts[piece_];
    element_ = inside / piece().bytes;
    within_ = inside % piece().bytes;
  }

  uint64_t at() const {
    if (layout_ == nullptr) return at_;
    return at_ + piece().offset + element_ * piece().stride + within_;
  }
  // Bytes that follow without a gap, at most `most`.
  uint64_t run(uint64_t most) const {
    return layout_ == nullptr ? most : std::min(most, piece().bytes - within_);
  }
  // Whether whole elements of a strided piece follow; how long they are, how far apart, how many.
  bool strided() const { return layout_ != nullptr && piece().count > 1 && within_ == 0; }
  uint64_t element_bytes() const { return piece().bytes; }
  uint64_t stride() const { return piece().stride; }
  uint64_t elements() const { return piece().count - element_; }

  void Advance(uint64_t bytes) {
    if (layout_ == nullptr) {
      at_ += bytes;
      return;
    }
    within_ += bytes;
    element_ += within_ / piece().bytes;
    within_ %= piece().bytes;
    if (element_ < piece().count) return;
    ++piece_;
    element_ = 0;
  }

 private:
  const StridedRange& piece() const { return layout_->pieces()[piece_]; }

  const Layout* const layout_;
  uint64_t at_;
  size_t piece_ = 0;
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

// Places in the payload where a piece begins on either side.
uint64_t MergedRanges(const Layout& source, const Layout& destination) {
  const std::vector<uint64_t>& a = source.starts();
  const std::vector<uint64_t>& b = destination.starts();
  uint64_t common = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const uint64_t at = a[i];
    common += at == b[k] ? 1 : 0;
    if (at <= b[k]) ++i;
    if (b[k] <= at) ++k;
  }
  return a.size() + b.size() - common;
}

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

uint64_t ChunkFor(const Layout* from, const Layout* to, uint64_t chunk_bytes,
                  uint64_t most_copies) {
  const uint64_t a = from == nullptr ? 0 : from->least_element();
  const uint64_t b = to == nullptr ? 0 : to->least_element();
  if (a == 0 || b == 0) return chunk_bytes;
  const uint64_t element = std::min(a, b);
  if (element >= chunk_bytes / most_copies) return chunk_bytes;
  return element * most_copies;
}

}  // namespace onecopy
