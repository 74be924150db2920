#include "daemon/engine/probing/ways.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/plan/ladder.h"
#include "daemon/plan/path.h"
#include "daemon/plan/planner.h"
#include "daemon/plan/refused.h"

namespace onecopy::engine {
namespace {

// Long enough for the rate alone to decide.
constexpr uint64_t kLongBytes = uint64_t{1} << 30;

// Host memory, and the first GPU that can be used.
std::vector<const MemoryCapability*> MemoriesOf(const NodeCapability& node) {
  std::vector<const MemoryCapability*> memories;
  for (const char* kind : {"host", "cuda"}) {
    const auto found = std::find_if(node.memories.begin(), node.memories.end(),
                                    [&](const MemoryCapability& memory) {
                                      return memory.kind == kind && memory.viability.viable;
                                    });
    if (found != node.memories.end()) memories.push_back(&*found);
  }
  return memories;
}

void AddBetter(const std::vector<Refusal>& refused, size_t most, std::vector<Refusal>& better) {
  for (const Refusal& refusal : refused) {
    if (better.size() == most) return;
    if (!plan::CouldNotApply(refusal.reason)) better.push_back(refusal);
  }
}

WayFigures WayOf(const plan::Request& request, std::string from, std::string to) {
  WayFigures way;
  way.from = std::move(from);
  way.to = std::move(to);
  const Result<plan::Path> path = plan::MakePlan(request);
  if (!path.ok()) {
    AddBetter(path.status().refusals(), plan::kLadder.size(), way.better);
    return way;
  }
  way.path = path->path;
  way.link = path->link;
  way.copies = path->copies();
  way.bytes_per_second = path->estimated_bytes_per_second;
  way.basis = plan::BasisOf(*path);
  way.probed_bytes_per_second = path->probed_bytes_per_second;
  AddBetter(path->refused, kMaxBetterShown, way.better);
  return way;
}

}  // namespace

std::string MemoryName(const MemoryCapability& memory) {
  return memory.ordinal < 0 ? memory.kind : memory.kind + ":" + std::to_string(memory.ordinal);
}

NodeWays WaysFrom(const std::string& node, const Planning& planning) {
  NodeWays all{node, {}};
  // Of a node that has gone meanwhile nothing is known.
  Result<plan::Request> request = planning.RequestFor(node, {}, {}, kLongBytes);
  if (!request.ok()) return all;
  for (const MemoryCapability* from : MemoriesOf(*request->source.node)) {
    for (const MemoryCapability* to : MemoriesOf(*request->destination.node)) {
      request->source.kind = from->kind;
      request->source.device = from->device;
      request->destination.kind = to->kind;
      request->destination.device = to->device;
      all.ways.push_back(WayOf(*request, MemoryName(*from), MemoryName(*to)));
    }
  }
  return all;
}

}  // namespace onecopy::engine
