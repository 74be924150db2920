#include "daemon/engine/move.h"

namespace onecopy::engine {

void AddReport(const pipeline::ChainReport& report, const std::vector<LaneInfo>& lanes,
               MoveOutcome* outcome) {
  outcome->status = report.status;
  outcome->seconds = report.seconds;
  for (const StepTally::Entry& entry : report.steps)
    outcome->steps.push_back({entry.step, entry.bytes});
  for (size_t i = 0; i < report.lane_bytes.size() && i < lanes.size(); ++i) {
    if (report.lane_bytes[i] == 0) continue;
    outcome->lanes.push_back({lanes[i].device, lanes[i].peer, report.lane_bytes[i]});
  }
}

}  // namespace onecopy::engine
