#include "onecopy/range.h"

#include "onecopy/reasons.h"

namespace onecopy {

Status CheckWithin(const ByteRange& range, uint64_t total, const std::string& what) {
  if (range.offset <= total && range.bytes <= total - range.offset) return OkStatus();
  return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
          "range @" + std::to_string(range.offset) +
              (range.bytes > 0 ? "+" + std::to_string(range.bytes) : "") + " does not lie inside " +
              what + " of " + std::to_string(total) + " bytes",
          "offset and length together may be at most " + std::to_string(total)};
}

bool Overlap(const ByteRange& a, const ByteRange& b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  return a.offset < b.offset ? b.offset - a.offset < a.bytes : a.offset - b.offset < b.bytes;
}

Status CheckColumns(const EqualRanges& ranges) {
  const size_t count = ranges.sources.size();
  const auto fits = [count](size_t size) { return size == 0 || size == count; };
  if (ranges.destinations.size() == count && fits(ranges.source_buffers.size()) &&
      fits(ranges.destination_buffers.size())) {
    return OkStatus();
  }
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "ranges of one length have " + std::to_string(count) + " sources, " +
              std::to_string(ranges.destinations.size()) + " destinations, and " +
              std::to_string(ranges.source_buffers.size()) + " and " +
              std::to_string(ranges.destination_buffers.size()) + " numbers of their buffers",
          "give each range its source and its destination; of buffers each, or none"};
}

}  // namespace onecopy
