#include "onecopy/array_shape.h"

#include <limits>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

// A dimension that is not part of one run of bytes.
struct Outer {
  uint64_t count = 0;
  uint64_t stride = 0;
};

Status Bad(std::string_view reason, std::string why, std::string remedy) {
  return {Code::kInvalidArgument, reason, "an array " + std::move(why), std::move(remedy)};
}

bool MultiplyOverflows(uint64_t a, uint64_t b, uint64_t* product) {
  return __builtin_mul_overflow(a, b, product);
}

Status CheckDimensions(const ArrayShape& array) {
  if (array.shape.size() > kMaxDimensions || array.dtype.size() > kMaxDtypeBytes) {
    return Bad(reasons::kBadArgument,
               "of " + std::to_string(array.shape.size()) + " dimensions and a dtype of " +
                   std::to_string(array.dtype.size()) + " characters",
               "use at most " + std::to_string(kMaxDimensions) + " dimensions, and a dtype of " +
                   std::to_string(kMaxDtypeBytes) + " characters");
  }
  if (array.shape.size() != array.strides.size()) {
    return Bad(reasons::kBadSize,
               "of " + std::to_string(array.shape.size()) + " dimensions has " +
                   std::to_string(array.strides.size()) + " strides",
               "give each dimension its stride in bytes");
  }
  if (array.item_bytes == 0) {
    return Bad(reasons::kBadSize, "has elements of 0 bytes", "give the size of an element");
  }
  return OkStatus();
}

template <typename Numbers>
std::string List(const Numbers& numbers) {
  std::string text = "[";
  for (const uint64_t number : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(number);
  }
  return text + "]";
}

}  // namespace

std::vector<uint64_t> CompactStrides(const ArrayShape& array) {
  std::vector<uint64_t> strides(array.shape.size());
  uint64_t step = array.item_bytes;
  for (size_t i = array.shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= array.shape[i];  // what overflows is refused by BytesOf
  }
  return strides;
}

bool IsContiguous(const ArrayShape& array) {
  const std::vector<uint64_t> compact = CompactStrides(array);
  for (size_t i = 0; i < array.shape.size(); ++i) {
    if (array.shape[i] > 1 && array.strides[i] != compact[i]) return false;
  }
  return true;
}

Result<uint64_t> BytesOf(const ArrayShape& array) {
  ONECOPY_RETURN_IF_ERROR(CheckDimensions(array));
  const Status too_large =
      Bad(reasons::kBadSize, "of shape " + List(array.shape) + " is larger than any memory",
          "check its shape and its strides");
  uint64_t bytes = array.item_bytes;
  uint64_t end = array.item_bytes;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() / 2;
  if (end > kMost) return too_large;
  for (size_t i = 0; i < array.shape.size(); ++i) {
    const uint64_t count = array.shape[i];
    const uint64_t stride = array.strides[i];
    if (count == 0) {
      return Bad(reasons::kBadSize, "of shape " + List(array.shape) + " has no elements",
                 "leave out arrays without elements");
    }
    uint64_t reach = 0;
    if (MultiplyOverflows(bytes, count, &bytes) || MultiplyOverflows(count - 1, stride, &reach) ||
        __builtin_add_overflow(end, reach, &end) || end > kMost) {
      return too_large;
    }
    if (count > 1 && stride < array.item_bytes) {
      return Bad(reasons::kRangesOverlap,
                 "of strides " + List(array.strides) + " repeats elements, or overlaps them",
                 "name the array from which it was made");
    }
  }
  return bytes;
}

uint64_t ExtentOf(const ArrayShape& array) {
  uint64_t end = array.item_bytes;
  for (size_t i = 0; i < array.shape.size(); ++i) end += (array.shape[i] - 1) * array.strides[i];
  return end;
}

Result<std::vector<StridedRange>> RangesOf(const ArrayShape& array) {
  uint64_t run = array.item_bytes;
  std::vector<Outer> outer;  // the fastest first
  for (size_t i = array.shape.size(); i-- > 0;) {
    const Outer one{array.shape[i], array.strides[i]};
    if (one.count == 1) continue;
    if (outer.empty() && one.stride == run) {
      run *= one.count;
    } else if (!outer.empty() && outer.back().count * outer.back().stride == one.stride) {
      outer.back().count *= one.count;
    } else {
      outer.push_back(one);
    }
  }
  if (outer.empty()) return std::vector<StridedRange>{{0, run, 0, 1}};
  uint64_t pieces = 1;
  for (size_t i = 1; i < outer.size() && pieces <= kMaxRanges; ++i) pieces *= outer[i].count;
  if (pieces > kMaxRanges) {
    return Bad(reasons::kBadSize,
               ToString(array) + " has more than " + std::to_string(kMaxRanges) +
                   " pieces, and no common stride joins them",
               "name it in parts, or name a copy without gaps");
  }
  std::vector<StridedRange> ranges{{0, run, outer[0].stride, outer[0].count}};
  for (size_t i = 1; i < outer.size(); ++i) {
    const size_t before = ranges.size();
    for (uint64_t k = 1; k < outer[i].count; ++k) {
      for (size_t j = 0; j < before; ++j) {
        StridedRange next = ranges[j];
        next.offset += k * outer[i].stride;
        ranges.push_back(next);
      }
    }
  }
  return ranges;
}

std::string ToString(const ArrayShape& array) {
  const std::string text = array.dtype + List(array.shape);
  return IsContiguous(array) ? text : text + " strides " + List(array.strides);
}

}  // namespace onecopy
