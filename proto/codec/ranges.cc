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

// Strict, for every sender, about what makes the columns a table at all.
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

std::optional<EqualOffsets> ParseEqual(const v1::Ranges& in) {
  const int ranges = in.offset_bytes_size();
  const bool plain = in.stride_bytes().empty() && in.count().empty();
  if (ranges == 0 || static_cast<size_t>(ranges) > kMaxRanges || !plain || in.bytes_size() != 1) {
    return std::nullopt;
  }
  return EqualOffsets{{in.offset_bytes().begin(), in.offset_bytes().end()}, in.bytes(0)};
}

void PrintEqual(std::span<const uint64_t> offsets, uint64_t bytes, uint64_t base, v1::Ranges* out) {
  auto* const column = out->mutable_offset_bytes();
  column->Reserve(static_cast<int>(offsets.size()));
  for (const uint64_t offset : offsets) column->AddAlreadyReserved(offset + base);
  out->add_bytes(bytes);
}

namespace {

// Where both sides are so, and of the same length.
Result<std::optional<EqualRanges>> ParseEqualPairs(const v1::Ranges& source, const Field& source_at,
                                                   const v1::Ranges& destination,
                                                   const Field& destination_at) {
  const bool alike = source.bytes_size() == 1 && destination.bytes_size() == 1 &&
                     source.bytes(0) == destination.bytes(0) &&
                     source.offset_bytes_size() == destination.offset_bytes_size();
  if (!alike) return std::optional<EqualRanges>();
  ONECOPY_RETURN_IF_ERROR(CheckColumns(source, source_at));
  ONECOPY_RETURN_IF_ERROR(CheckColumns(destination, destination_at));
  std::optional<EqualOffsets> from = ParseEqual(source);
  if (!from) return std::optional<EqualRanges>();
  std::optional<EqualOffsets> to = ParseEqual(destination);
  if (!to) return std::optional<EqualRanges>();
  EqualRanges equal{from->bytes, std::move(from->offsets), std::move(to->offsets)};
  const auto buffers = [&equal](const v1::Ranges& in, std::vector<uint32_t>* out) {
    if (in.buffer().empty()) return;
    out->resize(equal.sources.size());
    Spread(in.buffer(), in.offset_bytes_size(), [out](size_t i) -> uint32_t& { return (*out)[i]; });
  };
  buffers(source, &equal.source_buffers);
  buffers(destination, &equal.destination_buffers);
  return std::optional(std::move(equal));
}

}  // namespace

Result<AskedRanges> ParsePairs(const v1::Ranges& source, const Field& source_at,
                               const v1::Ranges& destination, const Field& destination_at) {
  AskedRanges asked;
  ONECOPY_ASSIGN_OR_RETURN(auto equal,
                           ParseEqualPairs(source, source_at, destination, destination_at));
  if (equal) {
    asked.equal = *std::move(equal);
    return asked;
  }
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
  std::vector<RangePair>& pairs = asked.pairs;
  pairs.resize(static_cast<size_t>(ranges));
  ReadColumns(source, [&](size_t i) -> StridedRange& { return pairs[i].source; });
  ReadColumns(destination, [&](size_t i) -> StridedRange& { return pairs[i].destination; });
  Spread(source.buffer(), ranges, [&](size_t i) -> uint32_t& { return pairs[i].source_buffer; });
  Spread(destination.buffer(), ranges,
         [&](size_t i) -> uint32_t& { return pairs[i].destination_buffer; });
  return asked;
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

void PrintPairs(const EqualRanges& ranges, v1::Ranges* source, v1::Ranges* destination) {
  const auto side = [bytes = ranges.bytes](const std::vector<uint64_t>& offsets,
                                           const std::vector<uint32_t>& buffers, v1::Ranges* out) {
    PrintEqual(offsets, bytes, 0, out);
    const auto other = [](uint32_t number) { return number != 0; };
    if (std::none_of(buffers.begin(), buffers.end(), other)) return;
    WriteColumn(
        buffers.size(), [&](size_t i) { return buffers[i]; }, out->mutable_buffer());
  };
  side(ranges.sources, ranges.source_buffers, source);
  side(ranges.destinations, ranges.destination_buffers, destination);
}

}  // namespace onecopy::codec
