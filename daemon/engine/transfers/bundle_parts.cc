#include "daemon/engine/transfers/bundle_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

ByteRange RangeOf(const Endpoint& end) {
  return {end.offset_bytes.value_or(0), end.bytes.value_or(0)};
}

PlacedLayout LaidOut(const Layout& layout, const Endpoint& end) {
  const ByteRange range = RangeOf(end);
  return {layout.contiguous() ? nullptr : &layout, range.offset, range.bytes};
}

// From the first byte of either to the last one.
ByteRange Around(const ByteRange& a, const ByteRange& b) {
  const uint64_t begin = std::min(a.offset, b.offset);
  return {begin, std::max(a.offset + a.bytes, b.offset + b.bytes) - begin};
}

// The ranges of one destination have been compared with each other, by its number; here it shows
// which numbers are one buffer.
Status CheckNamedOnce(const std::vector<StartRequest>& parts,
                      const std::vector<TransferInfo>& planned,
                      const std::vector<uint32_t>& numbers) {
  std::map<std::string, std::map<uint32_t, ByteRange>> buffers;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Endpoint& to = planned[i].destination;
    const auto [known, added] = buffers[to.buffer].try_emplace(numbers[i], RangeOf(to));
    if (!added) known->second = Around(known->second, RangeOf(to));
  }
  for (const auto& [buffer, extents] : buffers) {
    std::vector<ByteRange> sorted;
    for (const auto& [number, extent] : extents) sorted.push_back(extent);
    std::sort(sorted.begin(), sorted.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
    const auto meet = [](const ByteRange& a, const ByteRange& b) { return Overlap(a, b); };
    if (std::adjacent_find(sorted.begin(), sorted.end(), meet) == sorted.end()) continue;
    return {Code::kInvalidArgument, reasons::kRangesOverlap,
            "buffer \"" + buffer +
                "\" is named several times as a destination, and what is meant "
                "there overlaps or is interleaved",
            "name it once, and let all ranges in it have its number"};
  }
  return OkStatus();
}

Status CheckReadsAndWrites(const std::vector<StartRequest>& parts,
                           const std::vector<TransferInfo>& planned) {
  struct Sides {
    std::vector<PlacedLayout> read;
    std::vector<PlacedLayout> written;
  };
  std::map<std::string, Sides> buffers;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [from, to] = std::tie(planned[i].source, planned[i].destination);
    if (from.node != to.node) return OkStatus();  // so it is for all
    buffers[from.buffer].read.push_back(LaidOut(parts[i].ranges->source, from));
    buffers[to.buffer].written.push_back(LaidOut(parts[i].ranges->destination, to));
  }
  OverlapBudget budget;
  for (const auto& [buffer, sides] : buffers) {
    if (sides.read.empty() || sides.written.empty()) continue;
    ONECOPY_RETURN_IF_ERROR(
        CheckApart(sides.read, sides.written,
                   "source and destination overlap in buffer \"" + buffer + "\"", &budget));
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<StartRequest>> PartsOf(const StartRequest& whole) {
  StartRequest pattern = whole;
  pattern.parts.clear();
  pattern.asked.message.clear();  // of the whole
  pattern.asked.more_sources.clear();
  pattern.asked.more_destinations.clear();
  std::vector<StartRequest> parts;
  const std::string& node = whole.parts.front().reservation.source.node;
  for (size_t i = 0; i < whole.parts.size(); ++i) {
    const StartPart& part = whole.parts[i];
    const std::vector<Endpoint>& more = whole.asked.more_destinations;
    if (part.reservation.source.node != node || part.destination > more.size()) {
      return Status(Code::kInvalidArgument, reasons::kBadArgument,
                    "parts from several nodes, or to a destination that is not named");
    }
    parts.push_back(pattern);
    parts.back().id = PartId(whole.id, i);
    parts.back().reservation = part.reservation;
    parts.back().ranges = part.ranges;
    if (part.destination > 0) parts.back().asked.destination = more[part.destination - 1];
  }
  return parts;
}

Status CheckPartsApart(const StartRequest& whole, const std::vector<StartRequest>& parts,
                       const std::vector<TransferInfo>& planned) {
  std::vector<uint32_t> numbers;
  for (const StartPart& part : whole.parts) numbers.push_back(part.destination);
  ONECOPY_RETURN_IF_ERROR(CheckNamedOnce(parts, planned, numbers));
  return CheckReadsAndWrites(parts, planned);
}

TransferInfo Summary(const StartRequest& whole, const std::vector<TransferInfo>& planned) {
  TransferInfo info = planned.front();
  info.id = whole.id;
  info.bytes = 0;
  std::set<std::string> sources;
  std::set<std::string> destinations;
  std::string paths;
  for (const TransferInfo& part : planned) {
    info.bytes += part.bytes;
    sources.insert(part.source.buffer);
    destinations.insert(part.destination.buffer);
    const std::string& path = part.plan->path;
    if (("," + paths + ",").find("," + path + ",") == std::string::npos) {
      paths += (paths.empty() ? "" : ",") + path;
    }
    if (part.plan->copies() > info.plan->copies()) info.plan = part.plan;
  }
  info.plan->path = paths;
  info.source_buffers = sources.size();
  info.destination_buffers = destinations.size();
  return info;
}

}  // namespace onecopy::engine
