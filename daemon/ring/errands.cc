#include "daemon/ring/errands.h"

#include <algorithm>
#include <utility>

#include "transport/ring/layout.h"

namespace onecopy::ring {

Errands::Lane& Errands::LaneOf(std::shared_ptr<SmallCopyRoute> way) {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return lane.way == way; });
  if (found != lanes_.end()) return *found;
  return lanes_.emplace_back(Lane{std::move(way), {}});
}

void Errands::Begin(std::shared_ptr<SmallCopyRoute> way, std::vector<Errand> errands) {
  Lane& lane = LaneOf(std::move(way));
  const size_t before = lane.operations.size();
  const Clock::time_point now = Clock::now();
  for (Errand& errand : errands) {
    Status begun = lane.way->Begin(errand.from, errand.to, errand.bytes);
    if (!begun.ok()) {
      errand.done({std::move(begun), now, now, false});
      continue;
    }
    LongWork::Start start;
    if (errand.bytes > kMaxBytes) start = long_work_.Begin();
    lane.operations.push_back({std::move(errand), 0, now, start});
  }
  if (lane.operations.size() > before) {
    const uint64_t mark = lane.way->Mark();
    for (size_t i = before; i < lane.operations.size(); ++i) lane.operations[i].mark = mark;
  }
  std::erase_if(lanes_, [](const Lane& one) { return one.operations.empty(); });
}

bool Errands::Finish() {
  bool any = false;
  for (auto lane = lanes_.begin(); lane != lanes_.end();) {
    while (!lane->operations.empty()) {
      Operation& first = lane->operations.front();
      Status failure;
      if (!lane->way->Reached(first.mark, &failure)) break;
      any = true;
      Conclude(first, std::move(failure));
      lane->operations.pop_front();
    }
    lane = lane->operations.empty() ? lanes_.erase(lane) : std::next(lane);
  }
  return any;
}

void Errands::Cancel() {
  for (const Lane& lane : lanes_) lane.way->Cancel();
}

void Errands::Conclude(Operation& operation, Status status) {
  ErrandEnd end{std::move(status), operation.begun, Clock::now(), false};
  if (operation.errand.bytes > kMaxBytes) end.alone = long_work_.End(operation.start);
  operation.errand.done(end);
}

}  // namespace onecopy::ring
