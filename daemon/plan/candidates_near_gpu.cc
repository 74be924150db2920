#include <algorithm>
#include <string>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {
namespace {

// From the farthest of the drives; unknown where one of them is.
Distance FromDrive(const NodeCapability& node, const DrivePlace& drive,
                   const MemoryCapability& gpu) {
  if (drive.drives.empty() || gpu.address.empty()) return Distance::kUnknown;
  Distance farthest = Distance::kSameSwitch;
  for (const std::string& name : drive.drives) {
    farthest = std::max(farthest, node.topology.Between(name, gpu.address));
  }
  return farthest;
}

// The nearest of those on the drive's side that NVLink joins to the target; null where there is
// none.
const MemoryCapability* NearGpu(const Ends& ends, const DrivePlace& drive) {
  const MemoryCapability& target = ends.destination;
  const MemoryCapability* nearest = nullptr;
  Distance least = Distance::kSystem;
  for (const MemoryCapability& gpu : ends.source_node.memories) {
    const auto& peers = gpu.nvlink_peers;
    const bool joined = std::find(peers.begin(), peers.end(), target.device) != peers.end();
    if (gpu.kind != target.kind || !gpu.viability.viable || !joined) continue;
    const Distance distance = FromDrive(ends.source_node, drive, gpu);
    if (distance >= least) continue;
    nearest = &gpu;
    least = distance;
  }
  return nearest;
}

}  // namespace

bool IsFar(const NodeCapability& node, const DrivePlace& drive, const MemoryCapability& gpu) {
  return FromDrive(node, drive, gpu) == Distance::kSystem;
}

Assessment AssessThroughNearGpu(const Rung& rung, const Ends& ends, const FileEnd& file) {
  const NodeCapability& node = ends.source_node;
  const MemoryCapability& target = ends.destination;
  if (file.use != FileUse::kRead || !IsGpu(target) || !IsFar(node, file.drive, target)) return {};
  if (!DirectStore(node, file).viable) return {};
  const MemoryCapability* near = NearGpu(ends, file.drive);
  if (near == nullptr) return {};
  Path path = PathThroughNearGpu(rung, ends, file, *near);
  path.placement = "through " + near->device + ", " +
                   std::string(DistanceName(FromDrive(node, file.drive, *near))) +
                   " from the drive and joined by NVLink to " + target.device +
                   ", which is SYS from it: " + file.drive.words;
  return {.candidates = {{.path = std::move(path)}}, .refusal = {}};
}

}  // namespace onecopy::plan
