#include "client/python/native/ranges.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "client/python/native/errors.h"
#include "onecopy/reasons.h"

namespace onecopy::python {
namespace {

namespace nb = nanobind;

[[noreturn]] void Refuse(std::string_view reason, std::string why, std::string remedy) {
  throw StatusError({Code::kInvalidArgument, reason, std::move(why), std::move(remedy)});
}

// An array of whole numbers, by rows.
class Numbers {
 public:
  Numbers(const nb::tuple& fields, const char* side)
      : address_(nb::cast<uint64_t>(fields[0])),
        width_(nb::cast<size_t>(fields[1])),
        is_signed_(nb::cast<bool>(fields[2])),
        side_(side) {
    const auto shape = nb::cast<nb::tuple>(fields[3]);
    const auto strides = nb::cast<nb::tuple>(fields[4]);
    const bool rows = shape.size() == 2;
    if (rows) columns_ = nb::cast<size_t>(shape[1]);
    if ((!rows && shape.size() != 1) || (rows && columns_ != 2 && columns_ != 4)) {
      Refuse(reasons::kBadArgument,
             "the " + side_ + "'s ranges have the shape " + nb::repr(shape).c_str(),
             "pass an array of shape (n, 2) or (n, 4), or offsets of shape (n,) and their bytes");
    }
    count_ = nb::cast<size_t>(shape[0]);
    row_stride_ = nb::cast<int64_t>(strides[0]);
    if (rows) column_stride_ = nb::cast<int64_t>(strides[1]);
  }

  size_t count() const { return count_; }
  bool only_offsets() const { return columns_ == 1; }
  const std::string& side() const { return side_; }

  StridedRange At(size_t row, uint64_t bytes) const {
    if (columns_ == 1) return {Number(row, 0), bytes, 0, 1};
    if (columns_ == 2) return {Number(row, 0), Number(row, 1), 0, 1};
    return {Number(row, 0), Number(row, 1), Number(row, 2), Number(row, 3)};
  }

 private:
  uint64_t Number(size_t row, size_t column) const {
    const auto at = static_cast<uint64_t>(static_cast<int64_t>(row) * row_stride_ +
                                          static_cast<int64_t>(column) * column_stride_);
    const char* const place = reinterpret_cast<const char*>(address_ + at);
    if (width_ == sizeof(uint32_t)) {
      uint32_t number = 0;
      std::memcpy(&number, place, sizeof(number));
      return is_signed_ ? Checked(static_cast<int32_t>(number), row) : number;
    }
    uint64_t number = 0;
    std::memcpy(&number, place, sizeof(number));
    return is_signed_ ? Checked(static_cast<int64_t>(number), row) : number;
  }

  uint64_t Checked(int64_t number, size_t row) const {
    if (number < 0) {
      Refuse(reasons::kBadArgument,
             "the " + side_ + "'s range " + std::to_string(row) + " has the number " +
                 std::to_string(number),
             "pass numbers of at least 0");
    }
    return static_cast<uint64_t>(number);
  }

  uint64_t address_;
  size_t width_;
  bool is_signed_;
  std::string side_;
  size_t count_ = 0;
  size_t columns_ = 1;
  int64_t row_stride_ = 0;
  int64_t column_stride_ = 0;
};

}  // namespace

Ranges PackRanges(const nb::tuple& source, const nb::tuple& destination,
                  std::optional<uint64_t> bytes) {
  const Numbers from(source, "source");
  const Numbers to(destination, "destination");
  for (const Numbers* side : {&from, &to}) {
    if (side->only_offsets() && !bytes) {
      Refuse(
          reasons::kBadSize, "the length of the " + side->side() + "'s ranges is unknown",
          "pass the length of each range after the offsets: ranges=(sources, destinations, 4096)");
    }
  }
  if (bytes && !from.only_offsets() && !to.only_offsets()) {
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
  Ranges made;
  made.pairs.reserve(from.count());
  for (size_t i = 0; i < from.count(); ++i) {
    made.pairs.push_back({from.At(i, bytes.value_or(0)), to.At(i, bytes.value_or(0))});
  }
  return made;
}

}  // namespace onecopy::python
