// Where the devices of a node sit: which GPU, network device and NVMe share a PCIe switch, a host
// bridge, a NUMA node. Plain values, exchanged in the handshake, compared and printed. What is fast
// is measured by probes; a distance only breaks a tie, and places threads and slots.
#pragma once

#include "onecopy/language.h"  // first

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onecopy {

enum class DeviceKind { kGpu, kNic, kNvme };

// "gpu", "nic", "nvme".
std::string_view DeviceKindName(DeviceKind kind);
std::optional<DeviceKind> ParseDeviceKind(std::string_view text);

// What a transaction between two devices passes, nearest first, in the words that nvidia-smi made
// common. Two devices of unknown distance are not taken to be near.
enum class Distance {
  kSameSwitch,  // PIX: at most one PCIe switch
  kSwitches,    // PXB: several PCIe switches, no host bridge
  kHostBridge,  // PHB: one host bridge, usually of the CPU
  kNumaNode,    // NODE: several host bridges of one NUMA node
  kSystem,      // SYS: the interconnect between NUMA nodes
  kUnknown,     // UNKNOWN
};

// "PIX" … "SYS", "UNKNOWN".
std::string_view DistanceName(Distance distance);
std::optional<Distance> ParseDistance(std::string_view text);

struct TopologyDevice {
  DeviceKind kind = DeviceKind::kNic;
  std::string name;        // "mlx5_0", "nvme0n1"; of a GPU its PCI address
  std::string address;     // PCI address, as NormalPciAddress writes it; empty: not on PCI
  int32_t numa_node = -1;  // -1: unknown, or near to several
  std::string cpus;        // processors near to it, "0-55,112-167"; empty: unknown
  bool emulated = false;   // a network device that is software (rxe, siw)

  friend bool operator==(const TopologyDevice&, const TopologyDevice&) = default;
};

struct Topology {
  // More than any known machine has; what one node tells another is held to it.
  static constexpr size_t kMaxDevices = 256;

  std::vector<TopologyDevice> devices;
  // Of each pair once, as the machine says it: (0,1) (0,2) … (1,2) …; see PairIndex. Always
  // PairCount(devices.size()) of them.
  std::vector<Distance> distances;
  // What a hypervisor shows of PCIe need not be what is there: every distance counts as unknown.
  bool virtual_machine = false;
  // Where this comes from: "hwloc", or the file that took its place. Empty: not read.
  std::string source;

  static size_t PairCount(size_t devices) { return devices < 2 ? 0 : devices * (devices - 1) / 2; }
  // Of two different devices, by their places in `devices`.
  size_t PairIndex(size_t one, size_t other) const;

  // The place of the device with this name or PCI address (in any spelling). Links name a port of a
  // network device by its number ("mlx5_0:2"): that is the device's place.
  std::optional<size_t> Find(std::string_view name_or_address) const;

  // What to count on: unknown under a hypervisor, and for a device that is not here. A device is
  // kSameSwitch to itself.
  Distance Between(std::string_view one, std::string_view other) const;
  Distance Between(size_t one, size_t other) const;
  // What the machine says, believed or not.
  Distance Claimed(size_t one, size_t other) const;

  // The NUMA node of the device with this name or PCI address; -1 where it is not known.
  int32_t NumaNodeOf(std::string_view name_or_address) const;

  // How many NUMA nodes devices are known to be near to; 0 under a hypervisor.
  size_t NumaNodes() const;
  // The one NUMA node that all of these are known to be near to; -1 where there is none such, and
  // under a hypervisor.
  int32_t CommonNumaNode(const std::vector<std::string>& names) const;
  // The processors that each of so many threads should run on, as TopologyDevice::cpus, when all of
  // them drive all of these devices: shared out over the devices' NUMA nodes. Empty texts, for
  // anywhere, where a device's place is not known, under a hypervisor, and where there are fewer
  // threads than nodes.
  std::vector<std::string> PlaceThreads(const std::vector<std::string>& names,
                                        unsigned threads) const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// "0000:1b:00.0": four digits of domain where they suffice, lower case. From what vendors write:
// "1B:00.0", "00000000:1B:00.0". Nothing for what is not a PCI address.
std::optional<std::string> NormalPciAddress(std::string_view text);

// The matrix as cells: a row of headings, then one row per device: its number and name, the
// distance that the machine claims to each by number ("X" for itself), its NUMA node and
// processors.
std::vector<std::vector<std::string>> MatrixRows(const Topology& topology);

}  // namespace onecopy
