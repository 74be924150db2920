#include "daemon/engine/base/footprint.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// Of a node of a tree, or of a block of a heap, beside what is in it.
constexpr uint64_t kNode = 48;

uint64_t FootprintOf(const Step& step) {
  return engine::FootprintOf(step.node) + engine::FootprintOf(step.from) +
         engine::FootprintOf(step.to) + engine::FootprintOf(step.by);
}
uint64_t FootprintOf(const ExecutedStep& step) { return FootprintOf(step.step); }
uint64_t FootprintOf(const Refusal& refusal) {
  return engine::FootprintOf(refusal.path) + engine::FootprintOf(refusal.reason) +
         engine::FootprintOf(refusal.detail) + engine::FootprintOf(refusal.remedy);
}
uint64_t FootprintOf(const LaneBytes& lane) {
  return engine::FootprintOf(lane.device) + engine::FootprintOf(lane.peer);
}
uint64_t FootprintOf(const Attempt& attempt) {
  return engine::FootprintOf(attempt.path) + engine::FootprintOf(attempt.outcome);
}

template <typename T>
uint64_t FootprintOfAll(const std::vector<T>& all) {
  uint64_t bytes = all.capacity() * sizeof(T);
  for (const T& one : all) bytes += FootprintOf(one);
  return bytes;
}

uint64_t FootprintOf(const Layout& layout) { return layout.memory_bytes(); }

}  // namespace

uint64_t FootprintOf(const Status& status) {
  if (status.ok()) return 0;
  return 3 * kNode + FootprintOf(status.reason()) + FootprintOf(status.message()) +
         FootprintOf(status.remedy()) + FootprintOfAll(status.refusals());
}

uint64_t FootprintOf(const Endpoint& end) {
  return FootprintOf(end.node) + FootprintOf(end.buffer) + FootprintOf(end.file);
}

uint64_t FootprintOf(const Plan& plan) {
  return FootprintOf(plan.path) + FootprintOf(plan.link) + FootprintOfAll(plan.steps) +
         FootprintOf(plan.tried_again) + FootprintOf(plan.placement) + FootprintOfAll(plan.refused);
}

uint64_t FootprintOf(const Receipt& receipt) {
  uint64_t bytes = FootprintOf(receipt.path) + FootprintOf(receipt.link) +
                   FootprintOf(receipt.registration) + FootprintOf(receipt.key) +
                   FootprintOf(receipt.encryption) + FootprintOfAll(receipt.steps) +
                   FootprintOfAll(receipt.lanes) + FootprintOfAll(receipt.refused) +
                   FootprintOfAll(receipt.attempts);
  for (const auto& [key, text] : receipt.evidence) {
    bytes += kNode + sizeof key + sizeof text + FootprintOf(key) + FootprintOf(text);
  }
  return bytes;
}

uint64_t FootprintOf(const TransferInfo& info) {
  return sizeof info + FootprintOf(info.id.str()) + FootprintOf(info.source) +
         FootprintOf(info.destination) + FootprintOf(info.owner) +
         (info.plan ? FootprintOf(*info.plan) : 0) + FootprintOf(info.receipt) +
         FootprintOf(info.error) + FootprintOf(info.part_of.str()) + FootprintOf(info.waits_for) +
         FootprintOf(info.trace.str());
}

uint64_t FootprintOf(const BufferInfo& info) {
  return sizeof info + FootprintOf(info.node) + FootprintOf(info.name) + FootprintOf(info.id) +
         FootprintOf(info.device) + FootprintOf(info.owner) + FootprintOf(info.view_of) +
         (info.array ? info.array->shape.capacity() * 2 * sizeof(uint64_t) : 0);
}

uint64_t FootprintOf(const GrantInfo& info) {
  return sizeof info + FootprintOf(info.id.str()) + FootprintOf(info.buffer) +
         FootprintOf(info.to) + FootprintOf(info.owner) + FootprintOf(info.node);
}

uint64_t FootprintOf(const NodeInfo& info) {
  uint64_t bytes = sizeof info + FootprintOf(info.name) + FootprintOf(info.address) +
                   FootprintOf(info.boot_id) + FootprintOf(info.version) +
                   FootprintOf(info.detail) + FootprintOf(info.uid_domain);
  bytes += info.probes.size() * sizeof(ProbeInfo) + info.path_rates.size() * sizeof(PathRateInfo);
  return bytes;
}

uint64_t FootprintOf(const ExportInfo& info) {
  return sizeof info + FootprintOf(info.node) + FootprintOf(info.name) + FootprintOf(info.path);
}

uint64_t FootprintOf(const LayoutRef& layout) {
  if (layout == nullptr) return 0;
  return FootprintOf(*layout) + layout->size() * sizeof(StridedCopy);
}

uint64_t FootprintOf(const ScatterRef& ranges) {
  if (ranges == nullptr) return 0;
  const size_t copies = std::max(ranges->source.size(), ranges->destination.size());
  return FootprintOf(ranges->source) + FootprintOf(ranges->destination) +
         copies * sizeof(StridedCopy);
}

}  // namespace onecopy::engine
