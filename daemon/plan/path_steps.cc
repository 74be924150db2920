#include "daemon/plan/path_steps.h"

#include <iterator>
#include <utility>

#include "daemon/plan/slots_place.h"
#include "transport/core/toolkit/file_copier.h"

namespace onecopy::plan {
namespace {

constexpr const char* kPinned = "pinned";
constexpr const char* kSlab = "slab";
constexpr const char* kKernel = "kernel";
constexpr const char* kSealed = "tls";

std::string CopierOf(const MemoryCapability& memory) {
  if (IsProcess(memory)) return "client";
  return IsGpu(memory) ? "copy-engine" : "cpu";
}

// Through which memory is staged.
const char* SlotsOf(const MemoryCapability& memory) { return IsProcess(memory) ? kSlab : kPinned; }

// Adds step after step, each from where the one before ended.
class Walk {
 public:
  explicit Walk(const MemoryCapability& start) : at_(StepName(start)) {}

  void Copy(const std::string& to, const std::string& by, const NodeCapability& node) {
    steps_.push_back({.node = node.node, .from = std::exchange(at_, to), .to = to, .by = by});
  }
  void Wire(const std::string& to, const Ends& ends, bool emulated) {
    Copy(to, "wire", ends.destination_node);
    steps_.back().loopback = ends.OnOneHost();
    steps_.back().emulated = emulated;
  }
  std::vector<Step> Done() { return std::move(steps_); }

 private:
  std::string at_;
  std::vector<Step> steps_;
};

Path PathOf(const Rung& rung, const std::string& link, Staging staging, std::vector<Step> steps) {
  Path path;
  path.path = std::string(rung.name);
  path.link = link;
  path.steps = std::move(steps);
  path.source_staged = staging.source;
  path.destination_staged = staging.destination;
  return path;
}

}  // namespace

bool Staging::Needless(const Ends& ends) const {
  return (source && IsHost(ends.source)) || (destination && IsHost(ends.destination));
}

bool IsHost(const MemoryCapability& memory) { return memory.kind == "host"; }

bool IsGpu(const MemoryCapability& memory) { return !memory.device.empty(); }

bool IsProcess(const MemoryCapability& memory) { return IsOfProcess(memory.kind); }

const char* ProcessRemedy(const std::string& kind) {
  return kind == kProcessGpuKind ? "allocate shareable memory: with cudaMalloc, with cuMemCreate "
                                   "and CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or by the "
                                   "daemon; in torch, without backend:cudaMallocAsync"
                                 : "allocate shareable memory: a HostBuffer, or a sealed memfd";
}

std::string StepName(const MemoryCapability& memory) {
  return memory.device.empty() ? memory.kind : memory.device;
}

std::string Describe(const MemoryCapability& memory, const NodeCapability& node) {
  if (memory.kind == kProcessGpuKind) return "GPU memory of a process of " + node.node;
  return (IsGpu(memory) ? memory.device : memory.kind + " memory") + " of " + node.node;
}

Path PathInNode(const Rung& rung, const Ends& ends, Staging staging) {
  Walk walk(ends.source);
  std::string last_copier = CopierOf(IsGpu(ends.source) ? ends.source : ends.destination);
  if (staging.source || staging.destination) {
    // Its own slab is the only one that a process copies into.
    const MemoryCapability& first = IsProcess(ends.source) ? ends.source : ends.destination;
    walk.Copy(SlotsOf(first), CopierOf(ends.source), ends.source_node);
    if (staging.source && staging.destination) {
      walk.Copy(SlotsOf(ends.destination), "cpu", ends.source_node);
    }
    last_copier = CopierOf(ends.destination);
  }
  walk.Copy(StepName(ends.destination), last_copier, ends.destination_node);
  return PathOf(rung, {}, staging, walk.Done());
}

Path PathOfFile(const Rung& rung, const Ends& ends, const FileEnd& file) {
  const bool reads = file.use == FileUse::kRead;
  const MemoryCapability& memory = reads ? ends.destination : ends.source;
  const std::string& node = ends.source_node.node;
  const bool staged = !IsHost(memory);
  const std::string beside = staged ? SlotsOf(memory) : StepName(memory);
  std::vector<Step> steps = StepsOf(file.pass, file.use, node, beside);
  if (staged) {
    Step copy;
    copy.node = node;
    copy.from = reads ? beside : StepName(memory);
    copy.to = reads ? StepName(memory) : beside;
    copy.by = CopierOf(memory);
    steps.insert(reads ? steps.end() : steps.begin(), std::move(copy));
  }
  const Staging staging{.source = staged && !reads, .destination = staged && reads};
  Path path = PathOf(rung, {}, staging, std::move(steps));
  // A client's slab is where its process has put it.
  if (staged && !IsProcess(memory)) {
    SlotsPlace place = PlaceSlots(ends.source_node, memory, file.drive);
    path.slots_numa_node = place.numa_node;
    path.placement = std::move(place.why);
  }
  return path;
}

Path PathOfDirectFile(const Rung& rung, const Ends& ends, const FileEnd& file) {
  // Parts of blocks go through a slot, and the longest way counts.
  if (file.direct.edges) {
    Path path = PathOfFile(rung, ends, {.use = file.use, .pass = FilePass::kPageCache});
    path.source_staged = path.destination_staged = false;
    path.slots_numa_node = -1;
    path.placement.clear();
    return path;
  }
  const MemoryCapability& memory = file.use == FileUse::kRead ? ends.destination : ends.source;
  return PathOf(rung, {}, {},
                StepsOf(FilePass::kDirect, file.use, ends.source_node.node, StepName(memory)));
}

Path PathThroughNearGpu(const Rung& rung, const Ends& ends, const FileEnd& file,
                        const MemoryCapability& near) {
  const Ends first{ends.source_node, ends.source_node, ends.source, near, ends.estimates};
  Path path = PathOfDirectFile(rung, first, file);
  Step on;
  on.node = ends.source_node.node;
  on.from = StepName(near);
  on.to = StepName(ends.destination);
  on.by = CopierOf(near);
  path.steps.push_back(std::move(on));
  path.via = near.device;
  return path;
}

void CountFile(const Ends& ends, const FileEnd& file, Path* path) {
  const bool reads = file.use == FileUse::kRead;
  const NodeCapability& node = reads ? ends.source_node : ends.destination_node;
  std::vector<Step>& steps = path->steps;
  const auto slot = reads ? steps.begin() : std::prev(steps.end());
  const std::vector<Step> own =
      StepsOf(file.pass, file.use, node.node, reads ? slot->to : slot->from);
  steps.insert(steps.erase(slot), own.begin(), own.end());
  path->path = std::string(kFileThenLink) + path->path;
}

Path PathOverLink(const Rung& rung, const Ends& ends, const std::string& link, Staging staging,
                  bool emulated, Sealing sealing) {
  const bool sockets = rung.carrier == Carrier::kTcp;
  Walk walk(ends.source);
  if (staging.source) walk.Copy(SlotsOf(ends.source), CopierOf(ends.source), ends.source_node);
  if (sealing.source) walk.Copy(kSealed, "cpu", ends.source_node);
  if (sockets) walk.Copy(kKernel, "cpu", ends.source_node);
  const std::string landing =
      staging.destination ? SlotsOf(ends.destination) : StepName(ends.destination);
  walk.Wire(sockets ? kKernel : landing, ends, emulated);
  if (sealing.destination) walk.Copy(kSealed, "cpu", ends.destination_node);
  if (sockets) walk.Copy(landing, "cpu", ends.destination_node);
  if (staging.destination) {
    walk.Copy(StepName(ends.destination), CopierOf(ends.destination), ends.destination_node);
  }
  Path path = PathOf(rung, link, staging, walk.Done());
  path.emulated = emulated;
  return path;
}

Path PathThroughLinkBuffers(const Rung& rung, const Ends& ends, const std::string& link) {
  Walk walk(ends.source);
  walk.Copy(link, CopierOf(ends.source), ends.source_node);
  walk.Copy(kKernel, "cpu", ends.source_node);
  walk.Wire(kKernel, ends, false);
  walk.Copy(link, "cpu", ends.destination_node);
  walk.Copy(StepName(ends.destination), CopierOf(ends.destination), ends.destination_node);
  return PathOf(rung, link, {}, walk.Done());
}

}  // namespace onecopy::plan
