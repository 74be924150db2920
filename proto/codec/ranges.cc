// Ranges as columns: of each field one list, which is written and read at once.
#include <algorithm>
#include <utility>

#include "proto/codec/codec.h"

namespace onecopy::codec {
namespace {

// Whether a column belongs to a table of that many ranges.
Status CheckColumn(int size, int ranges, bool may_be_empty, const Field& at) {
  if (size == ranges || size == 1 || (may_be_empty && size == 0)) return OkStatus();
  return BadField(at, "has " + std::to_string(size) + " entries, and offset_bytes has " +
                          std::to_string(ranges) + ": give one for each, or one for all");
}

// Strict about what makes the columns a table at all, whoever wrote them.
Status CheckColumns(const v1::Ranges& in, const Field& at) {
  const int ranges = in.offset_bytes_size();
  ONECOPY_RETURN_IF_ERROR(CheckColumn(in.bytes_size(), ranges, false, at / "bytes"));
  ONECOPY_RETURN_IF_ERROR(CheckColumn(in.stride_bytes_size(), ranges, true, at / "stride_bytes"));
  ONECOPY_RETURN_IF_ERROR(CheckColumn(in.count_size(), ranges, true, at / "count"));
  ONECOPY_RETURN_IF_ERROR(CheckColumn(in.buffer_size(), ranges, true, at / "buffer"));
  if (static_cast<size_t>(ranges) <= kMaxRanges) return OkStatus();
  return BadField(at, "has more than " + std::to_string(kMaxRanges) + " ranges");
}

// Puts each entry, or the only one, into each place of a row that `get` finds.
template <typename Column, typename Get>
void Spread(const Column& column, int ranges, const Get& get) {
  if (column.empty()) return;
  const int step = column.size() == 1 ? 0 : 1;
  for (int i = 0; i < ranges; ++i) get(static_cast<size_t>(i)) = column.Get(i * step);
}

// `get`: the StridedRange of a row.
template <typename Get>
void ReadColumns(const v1::Ranges& in, const Get& get) {
  const int ranges = in.offset_bytes_size();
  const auto field = [&get](uint64_t StridedRange::*which) {
    return [&get, which](size_t i) -> uint64_t& { return get(i).*which; };
  };
  Spread(in.offset_bytes(), ranges, field(&StridedRange::offset));
  Spread(in.bytes(), ranges, field(&StridedRange::bytes));
  Spread(in.stride_bytes(), ranges, field(&StridedRange::stride));
  Spread(in.count(), ranges, field(&StridedRange::count));
}

// One entry where all are equal.
template <typename Value, typename Get>
void WriteColumn(size_t ranges, const Get& get, google::protobuf::RepeatedField<Value>* out) {
  bool equal = true;
  for (size_t i = 1; i < ranges && equal; ++i) equal = get(i) == get(0);
  const size_t entries = equal ? 1 : ranges;
  out->Reserve(static_cast<int>(entries));
  for (size_t i = 0; i < entries; ++i) out->AddAlreadyReserved(get(i));
}

template <typename Get>
void WriteColumns(size_t ranges, uint64_t base, const Get& get, v1::Ranges* out) {
  if (ranges == 0) return;
  auto* const offsets = out->mutable_offset_bytes();
  offsets->Reserve(static_cast<int>(ranges));
  bool strided = false;
  for (size_t i = 0; i < ranges; ++i) {
    offsets->AddAlreadyReserved(get(i).offset + base);
    strided = strided || get(i).count != 1;
  }
  WriteColumn(
      ranges, [&](size_t i) { return get(i).bytes; }, out->mutable_bytes());
  if (!strided) return;
  WriteColumn(
      ranges, [&](size_t i) { return get(i).stride; }, out->mutable_stride_bytes());
  WriteColumn(
      ranges, [&](size_t i) { return get(i).count; }, out->mutable_count());
}

}  // namespace

Result<std::vector<StridedRange>> Parse(const v1::Ranges& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckColumns(in, at));
  std::vector<StridedRange> value(static_cast<size_t>(in.offset_bytes_size()));
  ReadColumns(in, [&value](size_t i) -> StridedRange& { return value[i]; });
  return value;
}

void Print(std::span<const StridedRange> value, uint64_t base, v1::Ranges* out) {
  WriteColumns(
      value.size(), base, [&](size_t i) -> const StridedRange& { return value[i]; }, out);
}

Result<std::vector<RangePair>> ParsePairs(const v1::Ranges& source, const Field& source_at,
                                          const v1::Ranges& destination,
                                          const Field& destination_at) {
  ONECOPY_RETURN_IF_ERROR(CheckColumns(source, source_at));
  ONECOPY_RETURN_IF_ERROR(CheckColumns(destination, destination_at));
  const int ranges = source.offset_bytes_size();
  if (ranges != destination.offset_bytes_size()) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(ranges) + " source ranges and " +
                      std::to_string(destination.offset_bytes_size()) + " destination ranges",
                  "give one destination range for each source range");
  }
  if (ranges == 0) return BadField(source_at, "has no ranges");
  std::vector<RangePair> pairs(static_cast<size_t>(ranges));
  ReadColumns(source, [&](size_t i) -> StridedRange& { return pairs[i].source; });
  ReadColumns(destination, [&](size_t i) -> StridedRange& { return pairs[i].destination; });
  Spread(source.buffer(), ranges, [&](size_t i) -> uint32_t& { return pairs[i].source_buffer; });
  Spread(destination.buffer(), ranges,
         [&](size_t i) -> uint32_t& { return pairs[i].destination_buffer; });
  return pairs;
}

void PrintPairs(std::span<const RangePair> pairs, v1::Ranges* source, v1::Ranges* destination) {
  const auto side = [pairs](StridedRange RangePair::*end, uint32_t RangePair::*buffer,
                            v1::Ranges* out) {
    WriteColumns(
        pairs.size(), 0, [&](size_t i) -> const StridedRange& { return pairs[i].*end; }, out);
    const bool first = std::all_of(pairs.begin(), pairs.end(),
                                   [&](const RangePair& pair) { return pair.*buffer == 0; });
    if (first) return;
    WriteColumn(
        pairs.size(), [&](size_t i) { return pairs[i].*buffer; }, out->mutable_buffer());
  };
  side(&RangePair::source, &RangePair::source_buffer, source);
  side(&RangePair::destination, &RangePair::destination_buffer, destination);
}

}  // namespace onecopy::codec
