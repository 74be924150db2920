#include "daemon/engine/base/move.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// The first piece of a side whose first byte lies at `at`.
ByteRange FirstPiece(const LayoutRef& layout, uint64_t at, uint64_t payload) {
  if (layout == nullptr) return {at, payload};
  const StridedRange piece = layout->piece(0);
  return {at + piece.offset, piece.bytes};
}

}  // namespace

Status ProveRoute(CopyRoute& route, uint64_t there, const LayoutRef& from, const Area& to) {
  const uint64_t payload = to.payload();
  const ByteRange source = FirstPiece(from, there, payload);
  const ByteRange destination = FirstPiece(to.layout, to.span.offset, payload);
  return route.Prove(source.offset, destination.offset, std::min(source.bytes, destination.bytes));
}

std::string WaitsForSlots(const std::string& node, uint32_t ahead) {
  return "staging slots of node " + node +
         (ahead == 0 ? "" : ", after " + std::to_string(ahead) + " other transfer") +
         (ahead > 1 ? "s" : "");
}

std::string WaitsForRate(const pipeline::Chain& chain, const TransferPace& pace) {
  if (!chain.was_held()) return {};
  const std::string limits = pace.Describe();
  return limits.empty() ? limits : "its rate limit: " + limits;
}

void AddReport(const pipeline::ChainReport& report, const std::vector<LaneInfo>& lanes,
               MoveOutcome* outcome) {
  outcome->status = report.status;
  outcome->bytes = report.bytes;
  outcome->arrived = report.arrived;
  outcome->seconds = report.seconds;
  outcome->held_seconds = report.held_seconds;
  for (const ExecutedStep& entry : report.steps)
    outcome->steps.push_back({entry.step, entry.bytes});
  for (size_t i = 0; i < report.lane_bytes.size() && i < lanes.size(); ++i) {
    if (report.lane_bytes[i] == 0) continue;
    outcome->lanes.push_back({lanes[i].device, lanes[i].peer, report.lane_bytes[i]});
  }
}

}  // namespace onecopy::engine
