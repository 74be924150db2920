#include "daemon/engine/transfers/bundle_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// What parts do with one memory.
struct Uses {
  std::string buffer;  // by the name of one of its views
  std::vector<PlacedLayout> read;
  std::vector<PlacedLayout> written;
};

PlacedLayout LaidOut(const MemoryPlace& place) {
  return {place.layout.get(), place.range.offset, place.range.bytes};
}

// Whether what they span is apart already.
bool SpansApart(std::vector<ByteRange> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset < b.offset; });
  return std::adjacent_find(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
           return Overlap(a, b);
         }) == spans.end();
}

Status CheckWritten(const Uses& uses, OverlapBudget* budget) {
  return CheckAllApart(uses.written,
                       "buffer \"" + uses.buffer +
                           "\" is named several times as a destination, with ranges that overlap",
                       budget);
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
                    "the parts come from several nodes, or go to a destination that is not named");
    }
    parts.push_back(pattern);
    parts.back().id = PartId(whole.id, i);
    parts.back().reservation = part.reservation;
    parts.back().ranges = part.ranges;
    if (part.destination > 0) parts.back().asked.destination = more[part.destination - 1];
  }
  return parts;
}

Status CheckPartsApart(const std::vector<PartEnds>& parts) {
  std::map<BufferId, Uses> memories;
  std::map<BufferId, std::vector<ByteRange>> spans;  // of what is written
  for (const PartEnds& part : parts) {
    const PartEnd& to = part.destination;
    Uses& written = memories[to.memory];
    written.buffer = to.buffer;
    written.written.push_back(LaidOut(to.place));
    spans[to.memory].push_back(to.place.range);
    if (part.source) memories[part.source->memory].read.push_back(LaidOut(part.source->place));
  }
  OverlapBudget budget;
  for (const auto& [memory, uses] : memories) {
    if (uses.written.empty()) continue;
    if (!SpansApart(spans[memory])) ONECOPY_RETURN_IF_ERROR(CheckWritten(uses, &budget));
    if (uses.read.empty()) continue;
    ONECOPY_RETURN_IF_ERROR(
        CheckApart(uses.read, uses.written,
                   "source and destination overlap in buffer \"" + uses.buffer + "\"", &budget));
  }
  return OkStatus();
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
