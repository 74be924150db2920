#include "daemon/rpc/convert_ranges.h"

#include <vector>

namespace onecopy::rpc {
namespace {

Result<std::vector<StridedRange>> ParseColumns(const v1::Ranges& in, const Field& at) {
  const int ranges = in.offset_bytes_size();
  const auto fits = [&](int size, bool may_be_empty) {
    return size == ranges || (may_be_empty && size == 0);
  };
  if (!fits(in.bytes_size(), false))
    return BadField(at / "bytes", "is not as long as offset_bytes");
  if (!fits(in.stride_bytes_size(), true)) {
    return BadField(at / "stride_bytes", "is not as long as offset_bytes");
  }
  if (!fits(in.count_size(), true)) return BadField(at / "count", "is not as long as offset_bytes");
  if (static_cast<size_t>(ranges) > kMaxRanges) {
    return BadField(at, "has more than " + std::to_string(kMaxRanges) + " ranges");
  }
  std::vector<StridedRange> columns(static_cast<size_t>(ranges));
  for (int i = 0; i < ranges; ++i) {
    StridedRange& range = columns[static_cast<size_t>(i)];
    range.offset = in.offset_bytes(i);
    range.bytes = in.bytes(i);
    if (in.stride_bytes_size() > 0) range.stride = in.stride_bytes(i);
    if (in.count_size() > 0) range.count = in.count(i);
  }
  return columns;
}

}  // namespace

Result<ScatterRef> ParsePairs(const v1::Ranges& source, const v1::Ranges& destination,
                              const Field& at) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> from,
                           ParseColumns(source, at / "source_ranges"));
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> to,
                           ParseColumns(destination, at / "destination_ranges"));
  return Scatter::Make(from, to);
}

Result<Layout> ParseLayout(const v1::Ranges& in, const std::string& what, const Field& at) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> ranges, ParseColumns(in, at));
  return Layout::Make(ranges, what);
}

void Print(const Layout& value, v1::Ranges* out) {
  bool strided = false;
  for (const StridedRange& piece : value.pieces()) strided |= piece.count > 1;
  for (const StridedRange& piece : value.pieces()) {
    out->add_offset_bytes(value.extent().offset + piece.offset);
    out->add_bytes(piece.bytes);
    if (!strided) continue;
    out->add_stride_bytes(piece.stride);
    out->add_count(piece.count);
  }
}

}  // namespace onecopy::rpc
