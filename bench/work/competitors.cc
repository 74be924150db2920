// Other software that moves memory between processes over TCP, beside ours.
#include "bench/daemons/pair.h"
#include "bench/tools/competitor.h"
#include "bench/work/gpus.h"
#include "bench/work/hold.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

struct CompetitorMemory {
  const char* name;
  const char* path;  // ours
};
constexpr CompetitorMemory kHostMemory = {"host", "tcp-direct"};
constexpr CompetitorMemory kGpuMemory = {"gpu", "tcp-staged"};

// The competitor's rate, and ours in the same breath as its ceiling: a ratio of 0.1 is a competitor
// of a tenth of our speed.
Row Measure(Row row, const CompetitorParams& competitor, const CompetitorMemory& memory,
            const Settings& settings) {
  const Status room = CheckHostMemory(row.bytes, 4);
  if (!room.ok()) return NotSetUp(std::move(row), room);
  const Result<Pair> pair = Pair::Start(settings.daemon);
  if (!pair.ok()) return NotSetUp(std::move(row), pair.status());
  TransferParams params = {pair->east->AsNode(), "host", pair->west->AsNode(), "host", memory.path};
  CompetitorParams its = competitor;
  if (its.gpu_memory) {
    const auto gpus = UsableGpus(params.from);
    if (!gpus.ok()) return Waived(std::move(row), gpus.status());
    its.gpus = gpus->size() > 1 ? 2 : 1;
    params.from_memory = gpus->front().device;
    params.to_memory = (*gpus)[its.gpus - 1].device;
  }
  const auto theirs = MakeCompetitor(its, row.bytes);
  if (!theirs.ok()) return Waived(std::move(row), theirs.status());
  Result<std::unique_ptr<Mover>> ours = MakeTransfer(params, row.bytes);
  if (!ours.ok()) return NotSetUp(std::move(row), ours.status());
  // Whether it can run here is seen by running it once, and by what it says then.
  if (const auto tried = (*theirs)->Move(); !tried.ok()) {
    return Waived(std::move(row), tried.status());
  }
  const MakeCeiling make = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    return std::move(*ours);
  };
  row = Compare(std::move(row), **theirs, make, settings.compare());
  if (!its.verifies()) row.verified.reset();
  return row;
}

}  // namespace

std::vector<Row> Competitors(const Settings& settings) {
  std::vector<Row> rows;
  for (const std::string name : {"nixl", "mooncake", "ucx"}) {
    for (const bool tuned : {false, true}) {
      if (tuned && name == "ucx") continue;
      for (const CompetitorMemory& memory : {kHostMemory, kGpuMemory}) {
        if (settings.stopped && settings.stopped()) return rows;
        const std::string ends = std::string(memory.name) + " to " + memory.name;
        Row row = {
            .work = "competitor " + name + ", " + (tuned ? "tuned" : "default") + ", " + ends,
            .path = "tcp",
            .bytes = settings.bytes,
            .ceiling = std::string("onecopy ") + memory.path};
        const CompetitorParams params = {.folder = settings.competitors,
                                         .name = name,
                                         .tuned = tuned,
                                         .gpu_memory = memory.name == kGpuMemory.name};
        rows.push_back(Measure(std::move(row), params, memory, settings));
      }
    }
  }
  return rows;
}

}  // namespace onecopy::bench
