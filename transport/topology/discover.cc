#include "transport/topology/discover.h"

#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/sysfs.h"

namespace onecopy {
namespace {

// From the object itself to the machine.
std::vector<hwloc_obj*> Ancestors(hwloc_obj* object) {
  std::vector<hwloc_obj*> chain;
  for (; object != nullptr; object = object->parent) chain.push_back(object);
  return chain;
}

bool IsPciBridge(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_BRIDGE &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

bool IsHostBridge(const hwloc_obj* object) {
  return object->type == HWLOC_OBJ_BRIDGE &&
         object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

// The one NUMA node near to an object that is not I/O; -1 where there are several.
int32_t NumaNodeOf(const hwloc_obj* object) {
  if (object == nullptr || object->nodeset == nullptr) return -1;
  if (hwloc_bitmap_weight(object->nodeset) != 1) return -1;
  return hwloc_bitmap_first(object->nodeset);
}

// Between two PCI devices of one loaded topology; unknown where one is null.
Distance DistanceBetween(hwloc_topology_t topology, hwloc_obj* one, hwloc_obj* other) {
  if (one == nullptr || other == nullptr) return Distance::kUnknown;
  if (one == other) return Distance::kSameSwitch;  // two devices of one PCI function
  const std::vector<hwloc_obj*> left = Ancestors(one);
  const std::vector<hwloc_obj*> right = Ancestors(other);
  const auto meeting = std::find_first_of(left.begin(), left.end(), right.begin(), right.end());
  if (meeting == left.end()) return Distance::kUnknown;
  if (IsPciBridge(*meeting)) {
    // A switch is one bridge up, towards the processor, and one down for each device: with no more
    // than that last one on either side, the two are below one switch.
    const auto between = [&](const std::vector<hwloc_obj*>& chain) {
      return std::count_if(chain.begin(), std::find(chain.begin(), chain.end(), *meeting),
                           IsPciBridge);
    };
    return between(left) <= 1 && between(right) <= 1 ? Distance::kSameSwitch : Distance::kSwitches;
  }
  if (IsHostBridge(*meeting)) return Distance::kHostBridge;
  const int32_t left_node = NumaNodeOf(hwloc_get_non_io_ancestor_obj(topology, one));
  const int32_t right_node = NumaNodeOf(hwloc_get_non_io_ancestor_obj(topology, other));
  if (left_node < 0 || right_node < 0) return Distance::kUnknown;
  return left_node == right_node ? Distance::kNumaNode : Distance::kSystem;
}

constexpr uint16_t kNvidia = 0x10de;
constexpr uint16_t kAmd = 0x1002;
constexpr uint16_t kDisplayClass = 0x03;      // first byte of hwloc's class_id
constexpr uint16_t kAcceleratorClass = 0x12;  // what AMD's newer GPUs are
constexpr uint16_t kNvmeClass = 0x0108;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, Destroy>;

// hwloc's Linux backend takes its root from the environment only.
class ScopedRoot {
 public:
  explicit ScopedRoot(const std::string& root) : set_(root != "/") {
    if (set_) ::setenv(kVariable, root.c_str(), 1);
  }
  ~ScopedRoot() {
    if (set_) ::unsetenv(kVariable);
  }
  ScopedRoot(const ScopedRoot&) = delete;
  ScopedRoot& operator=(const ScopedRoot&) = delete;

 private:
  static constexpr char kVariable[] = "HWLOC_FSROOT";
  const bool set_;
};

Status Failed(const std::string& what) {
  return {Code::kInternal, reasons::kIo, "hwloc: " + what + ": " + os::ErrnoText(errno),
          "describe the devices in a file, and name it as `topology` in the configuration"};
}

Result<HwlocTopology> Load(const std::string& root) {
  const ScopedRoot scoped(root);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Failed("hwloc_topology_init");
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Backends that would open GPUs' drivers or displays, or move this thread to every processor. One
  // that this hwloc does not have cannot be switched off, which is as well.
  for (const char* backend : {"x86", "cuda", "nvml", "rsmi", "levelzero", "opencl", "gl"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, backend);
  }
  // Processors that this process may not use count too: a device is near to them anyway.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) return Failed("reading " + root);
  return topology;
}

std::string AddressOf(const hwloc_obj* device) {
  const auto& pci = device->attr->pcidev;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev,
                pci.func);
  return text.data();
}

// Fills in where `device`, null for one that is not on PCI, sits.
void Place(hwloc_topology_t topology, hwloc_obj* device, TopologyDevice& out) {
  if (device == nullptr) return;
  out.address = AddressOf(device);
  const hwloc_obj* near = hwloc_get_non_io_ancestor_obj(topology, device);
  if (near == nullptr || near->cpuset == nullptr) return;
  out.numa_node = NumaNodeOf(near);
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, near->cpuset) >= 0) out.cpus = text;
  std::free(text);
}

bool IsGpu(const decltype(hwloc_obj_attr_u::pcidev)& pci) {
  const auto base = static_cast<uint16_t>(pci.class_id >> 8);
  if (pci.vendor_id == kNvidia) return base == kDisplayClass;
  return pci.vendor_id == kAmd && (base == kDisplayClass || base == kAcceleratorClass);
}

// "nvme0n1": the first disk that the kernel made of an NVMe controller; else the PCI address.
std::string NvmeName(const hwloc_obj* device, const std::string& address) {
  std::string name;
  for (const hwloc_obj* child = device->io_first_child; child != nullptr;
       child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    const std::string disk = child->name;
    if (disk.starts_with("nvme") && (name.empty() || disk < name)) name = disk;
  }
  return name.empty() ? address : name;
}

using Placed = std::pair<TopologyDevice, hwloc_obj*>;

std::vector<Placed> FindDevices(hwloc_topology_t topology, const std::string& root) {
  std::vector<Placed> devices;
  for (hwloc_obj* object = nullptr;
       (object = hwloc_get_next_pcidev(topology, object)) != nullptr;) {
    const auto& pci = object->attr->pcidev;
    TopologyDevice device;
    device.name = AddressOf(object);
    if (IsGpu(pci)) {
      device.kind = DeviceKind::kGpu;
    } else if (pci.class_id == kNvmeClass) {
      device.kind = DeviceKind::kNvme;
      device.name = NvmeName(object, device.name);
    } else {
      continue;
    }
    Place(topology, object, device);
    devices.emplace_back(std::move(device), object);
  }
  for (const sysfs::RdmaDevice& rdma : sysfs::RdmaDevices(root)) {
    TopologyDevice device;
    device.kind = DeviceKind::kNic;
    device.name = rdma.name;
    device.emulated = rdma.emulated;
    hwloc_obj* object = rdma.address.empty() || rdma.emulated
                            ? nullptr
                            : hwloc_get_pcidev_by_busidstring(topology, rdma.address.c_str());
    Place(topology, object, device);
    devices.emplace_back(std::move(device), object);
  }
  std::sort(devices.begin(), devices.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.first.kind, a.first.name) < std::tie(b.first.kind, b.first.name);
  });
  if (devices.size() > Topology::kMaxDevices) devices.resize(Topology::kMaxDevices);
  return devices;
}

}  // namespace

Result<Topology> DiscoverTopology(const std::string& root) {
  ONECOPY_ASSIGN_OR_RETURN(const HwlocTopology hwloc, Load(root));
  std::vector<Placed> devices = FindDevices(hwloc.get(), root);
  Topology topology;
  topology.source = "hwloc";
  topology.virtual_machine = !VirtualMachineEvidence(root).empty();
  topology.distances.reserve(Topology::PairCount(devices.size()));
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = i + 1; j < devices.size(); ++j) {
      topology.distances.push_back(
          DistanceBetween(hwloc.get(), devices[i].second, devices[j].second));
    }
  }
  for (Placed& device : devices) topology.devices.push_back(std::move(device.first));
  return topology;
}

std::string VirtualMachineEvidence(const std::string& root) {
  if (sysfs::HasCpuFlag(root, "hypervisor")) return "the cpu flag hypervisor";
  // Processors without that flag (Arm) say it by their firmware only.
  const std::string dmi = root + "/sys/class/dmi/id/";
  const std::string vendor = sysfs::ReadLine(dmi + "sys_vendor");
  const std::string product = sysfs::ReadLine(dmi + "product_name");
  const auto says = [&](std::string_view word) {
    return vendor.find(word) != std::string::npos || product.find(word) != std::string::npos;
  };
  const bool cloud = (says("Amazon EC2") && !product.ends_with(".metal")) ||
                     (says("Google Compute Engine") && !product.ends_with("-metal"));
  if (cloud || says("QEMU") || says("KVM") || says("VMware") || says("Virtual Machine") ||
      says("HVM domU")) {
    return "DMI: " + vendor + " " + product;
  }
  return {};
}

}  // namespace onecopy
