#include "transport/store/posix/drive_places.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "transport/os/machine/numa.h"

namespace onecopy::posix {
namespace {

// What hwloc found is the kernel's own account, of which it keeps NVMe alone; a file's replaces it.
constexpr std::string_view kOwnAccount = "hwloc";

std::string NumberOf(dev_t device) {
  return std::to_string(major(device)) + ":" + std::to_string(minor(device));
}

// A person may name what the kernel does not place by its number.
const TopologyDevice* Named(const Topology& topology, const std::string& name) {
  const auto found = std::find_if(
      topology.devices.begin(), topology.devices.end(),
      [&](const auto& device) { return device.kind == DeviceKind::kNvme && device.name == name; });
  return found == topology.devices.end() ? nullptr : &*found;
}

DrivePlace Unknown(const std::string& why) {
  DrivePlace place;
  place.words = "unknown: " + why;
  return place;
}

}  // namespace

DrivePlaces::DrivePlaces(Topology topology, std::string root)
    : topology_(std::move(topology)),
      root_(std::move(root)),
      several_(!topology_.virtual_machine &&
               (topology_.NumaNodes() > 1 ||
                (topology_.source == kOwnAccount && os::NumaNodes(root_) > 1))) {}

DrivePlace DrivePlaces::Of(dev_t device, const FileSystemKind& kind) {
  std::error_code none;
  const std::string folder =
      std::filesystem::read_symlink(root_ + "/sys/dev/block/" + NumberOf(device), none).string();
  {
    const MutexLock lock(mutex_);
    const auto known = known_.find(device);
    if (known != known_.end() && !folder.empty() && known->second.folder == folder) {
      return known->second.place;
    }
  }
  DrivePlace place = Look(device, kind);
  // What is made of other devices (dm, md) may be made of others tomorrow, under the same name.
  if (folder.empty() || folder.find("/virtual/") != std::string::npos) return place;
  const MutexLock lock(mutex_);
  if (known_.size() < kMost || known_.contains(device)) known_[device] = {folder, place};
  return place;
}

DrivePlace DrivePlaces::Look(dev_t device, const FileSystemKind& kind) const {
  const std::string number = NumberOf(device);
  if (const TopologyDevice* named = Named(topology_, number); named != nullptr) {
    os::Drives one;
    one.drives = {{number, {}, -1, {}}};
    return PlaceOf(one);
  }
  if (kind.in_memory) return Unknown(std::string(kind.name) + " is memory");
  const os::Drives found = os::DrivesOf(device, root_);
  if (found.drives.empty()) return Unknown(std::string(kind.name) + ": " + found.why_none);
  return PlaceOf(found);
}

DrivePlace DrivePlaces::PlaceOf(const os::Drives& found) const {
  DrivePlace place;
  std::set<int32_t> nodes;
  std::string cpus;
  bool all_in_topology = true;
  for (const os::Drive& drive : found.drives) {
    const std::optional<size_t> by_name = topology_.Find(drive.name);
    const std::optional<size_t> at = by_name ? by_name : topology_.Find(drive.address);
    int32_t node = -1;
    all_in_topology = all_in_topology && at;
    if (at) {
      node = topology_.devices[*at].numa_node;
      cpus = topology_.devices[*at].cpus;
      place.drives.push_back(topology_.devices[*at].name);
    } else if (topology_.source == kOwnAccount) {
      node = drive.numa_node;
      cpus = drive.cpus;
    }
    nodes.insert(node);
    place.words += (place.words.empty() ? "" : ", ") + drive.name;
    if (drive.address.empty() && node < 0) continue;
    place.words += " (" + drive.address + (drive.address.empty() || node < 0 ? "" : ", ") +
                   (node < 0 ? "" : "NUMA node " + std::to_string(node)) + ")";
  }
  // With only some of them known, the file's distance is unknown.
  if (!all_in_topology) place.drives.clear();
  if (topology_.virtual_machine || nodes.size() != 1 || *nodes.begin() < 0) {
    place.words += topology_.virtual_machine ? ", as a hypervisor shows it"
                   : nodes.size() > 1        ? ": near to several NUMA nodes"
                                             : "";
    return place;
  }
  if (!several_) return place;
  place.numa_node = *nodes.begin();
  place.cpus = std::move(cpus);
  return place;
}

}  // namespace onecopy::posix
