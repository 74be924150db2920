#include "client/python/native/ranges.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "client/python/native/errors.h"
#include "onecopy/reasons.h"

namespace onecopy::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void Refuse(std::string_view reason, std::string why, std::string remedy) {
  throw StatusError({Code::kInvalidArgument, reason, std::move(why), std::move(remedy)});
}

// Every `stride` bytes from `place` on. `seen` gets what all of them have set, signs included.
template <typename Number>
void Read(const char* place, int64_t stride, std::vector<uint64_t>* numbers, int64_t* seen) {
  for (uint64_t& number : *numbers) {
    Number read = 0;
    std::memcpy(&read, place, sizeof read);
    place += stride;
    const auto wide = static_cast<int64_t>(read);
    if constexpr (std::is_signed_v<Number>) *seen |= wide;
    number = static_cast<uint64_t>(wide);
  }
}

// An array of whole numbers: one, or a row of them, for each range or block.
class Numbers {
 public:
  // `side`: "source"; `what`: "range".
  Numbers(const nb::tuple& fields, std::string side, std::string what)
      : address_(nb::cast<uint64_t>(fields[0])),
        width_(nb::cast<size_t>(fields[1])),
        is_signed_(nb::cast<bool>(fields[2])),
        side_(std::move(side)),
        what_(std::move(what)),
        shape_(nb::cast<nb::tuple>(fields[3])) {
    const auto strides = nb::cast<nb::tuple>(fields[4]);
    if (shape_.size() > 0) {
      count_ = nb::cast<size_t>(shape_[0]);
      row_stride_ = nb::cast<int64_t>(strides[0]);
    }
    if (shape_.size() == 2) {
      columns_ = nb::cast<size_t>(shape_[1]);
      column_stride_ = nb::cast<int64_t>(strides[1]);
    }
  }

  size_t count() const { return count_; }
  size_t columns() const { return columns_; }
  const std::string& side() const { return side_; }

  void CheckShape(bool may_have_rows, const char* remedy) const {
    const bool rows = shape_.size() == 2;
    if (shape_.size() == 1 || (rows && may_have_rows && (columns_ == 2 || columns_ == 4))) return;
    Refuse(reasons::kBadArgument,
           "the " + side_ + "'s " + what_ + "s have the shape " + nb::repr(shape_).c_str(), remedy);
  }

  std::vector<uint64_t> Column(size_t column) const {
    std::vector<uint64_t> numbers(count_);
    if (count_ == 0) return numbers;  // and no memory
    const auto at = static_cast<uint64_t>(static_cast<int64_t>(column) * column_stride_);
    const char* const place = reinterpret_cast<const char*>(address_ + at);
    int64_t seen = 0;
    if (width_ == sizeof(uint32_t)) {
      is_signed_ ? Read<int32_t>(place, row_stride_, &numbers, &seen)
                 : Read<uint32_t>(place, row_stride_, &numbers, &seen);
    } else {
      is_signed_ ? Read<int64_t>(place, row_stride_, &numbers, &seen)
                 : Read<uint64_t>(place, row_stride_, &numbers, &seen);
    }
    if (seen >= 0) return numbers;
    const auto negative = std::find_if(numbers.begin(), numbers.end(), [](uint64_t number) {
      return static_cast<int64_t>(number) < 0;
    });
    Refuse(reasons::kBadArgument,
           "the " + side_ + "'s " + what_ + " " + std::to_string(negative - numbers.begin()) +
               " has the number " + std::to_string(static_cast<int64_t>(*negative)),
           "pass numbers from 0 on");
  }

 private:
  uint64_t address_;
  size_t width_;
  bool is_signed_;
  std::string side_;
  std::string what_;
  nb::tuple shape_;
  size_t count_ = 0;
  size_t columns_ = 1;
  int64_t row_stride_ = 0;
  int64_t column_stride_ = 0;
};

// One side's ranges, by columns; without strides those are empty.
struct Side {
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> lengths;  // empty: all of the same
  std::vector<uint64_t> strides;
  std::vector<uint64_t> counts;
  uint64_t length = 0;

  explicit Side(const Numbers& numbers, uint64_t bytes)
      : offsets(numbers.Column(0)), length(bytes) {
    if (numbers.columns() == 1) return;
    lengths = numbers.Column(1);
    const uint64_t first = lengths.empty() ? 0 : lengths.front();
    const auto same = [first](uint64_t one) { return one == first; };
    if (numbers.columns() == 4) {
      strides = numbers.Column(2);
      counts = numbers.Column(3);
    } else if (std::all_of(lengths.begin(), lengths.end(), same)) {
      length = first;
      lengths.clear();
    }
  }

  bool equal() const { return lengths.empty(); }
  StridedRange At(size_t i) const {
    StridedRange range{offsets[i], lengths.empty() ? length : lengths[i], 0, 1};
    if (!counts.empty()) {
      range.stride = strides[i];
      range.count = counts[i];
    }
    return range;
  }
};

constexpr const char* kShapes =
    "pass an array of shape (n, 2) or (n, 4), or offsets of shape (n,) and their bytes";

}  // namespace

Ranges PackRanges(const nb::tuple& source, const nb::tuple& destination,
                  std::optional<uint64_t> bytes) {
  const Numbers from(source, "source", "range");
  const Numbers to(destination, "destination", "range");
  bool offsets = false;
  for (const Numbers* side : {&from, &to}) {
    side->CheckShape(true, kShapes);
    offsets = offsets || side->columns() == 1;
    if (side->columns() == 1 && !bytes) {
      Refuse(
          reasons::kBadSize, "the length of the " + side->side() + "'s ranges is unknown",
          "pass the length of each range after the offsets: ranges=(sources, destinations, 4096)");
    }
  }
  if (bytes && !offsets) {
    Refuse(reasons::kBadArgument, "the ranges have lengths, and another length was passed",
           "pass two arrays of ranges, or two arrays of offsets and the length of each range");
  }
  if (from.count() != to.count()) {
    Refuse(reasons::kSizeMismatch,
           "there are " + std::to_string(from.count()) + " ranges of the source and " +
               std::to_string(to.count()) + " of the destination",
           "pass equally many");
  }
  if (from.count() > kMaxRanges) {
    Refuse(reasons::kBadArgument,
           std::to_string(from.count()) + " ranges; a transfer takes 1 to " +
               std::to_string(kMaxRanges),
           "split the request");
  }
  Side sources(from, bytes.value_or(0));
  Side destinations(to, bytes.value_or(0));
  if (sources.equal() && destinations.equal() && sources.length == destinations.length) {
    return {
        .equal = std::make_shared<const EqualRanges>(EqualRanges{
            sources.length, std::move(sources.offsets), std::move(destinations.offsets), {}, {}})};
  }
  Ranges made;
  made.pairs.reserve(from.count());
  for (size_t i = 0; i < from.count(); ++i) {
    made.pairs.push_back({sources.At(i), destinations.At(i)});
  }
  return made;
}

BlockNumbers PackBlockNumbers(const nb::tuple& fields, const std::string& side) {
  const Numbers numbers(fields, side, "block");
  numbers.CheckShape(false, "pass block numbers of shape (n,)");
  if (numbers.count() > kMaxRanges) {  // before they are read: there may be any number
    Refuse(reasons::kBadArgument,
           std::to_string(numbers.count()) + " blocks; a transfer takes 1 to " +
               std::to_string(kMaxRanges) + " of all layers",
           "split the request");
  }
  return {numbers.Column(0)};
}

Ranges PackBlocks(const BlockLayout& source, const BlockNumbers& source_blocks,
                  const BlockLayout& destination, const BlockNumbers& blocks) {
  if (source_blocks.numbers.empty() && blocks.numbers.empty()) return {};
  return {.equal = std::make_shared<const EqualRanges>(
              Must(RangesOf(source, source_blocks.numbers, destination, blocks.numbers)))};
}

}  // namespace onecopy::python
