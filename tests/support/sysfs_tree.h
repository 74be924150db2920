// A machine's /sys and /proc, planted in a folder: processors, NUMA nodes, a PCI tree with
// configuration space, RDMA devices and disks, in the kernel's own layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onecopy::testing {

// A PCI function; one with others below it is a bridge (a port of a switch, or a root port).
struct Pci {
  std::string address;  // "0000:1b:00.0"
  uint32_t class_code = 0x060400;
  uint16_t vendor = 0x8086;
  std::vector<Pci> below = {};
  bool acs_redirect = false;  // a bridge that sends what passes between devices up to the processor
  bool no_config = false;     // its configuration space shows 64 bytes only, as to a plain user
  uint64_t bar1_bytes = uint64_t{128} << 30;  // of a GPU
};

Pci PciGpu(const std::string& address);
Pci PciNic(const std::string& address);
Pci PciNvme(const std::string& address);
// A PCIe switch: one port up, at `up`, and below it one port down at each function of `ports`.
Pci PciSwitch(const std::string& up, std::vector<Pci> ports);
Pci PciPort(const std::string& address, std::vector<Pci> below);

struct RdmaPort {
  std::string state = "4: ACTIVE";
  std::string link_layer = "Ethernet";
  std::string rate = "400 Gb/sec (4X NDR)";
  // GID and its type ("RoCE v2", "IB/RoCE v1"), by index.
  std::vector<std::pair<std::string, std::string>> gids = {
      {"fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"}};
  std::string netdev = {};
  uint32_t netdev_mtu = 9000;
};

class SysfsTree {
 public:
  // Processors 0… in NUMA nodes of `cpus_per_node` each, one socket a node.
  SysfsTree(std::string root, int nodes, int cpus_per_node);

  // A host bridge ("0000:15") of a NUMA node (-1: the firmware does not say).
  void AddHostBridge(const std::string& bus, int numa_node, const std::vector<Pci>& below);
  // After its PCI function; an empty address makes a device that is on no bus (rxe).
  void AddRdma(const std::string& name, const std::string& address, const RdmaPort& port = {});
  void AddDisk(const std::string& name, const std::string& address);
  // A block device of that number in a folder below the root: what lies on others names these.
  void AddBlock(const std::string& number, const std::string& folder,
                const std::vector<std::string>& members = {});
  // Where the function of that address is, from the root.
  std::string FolderOf(const std::string& address) const;
  // What a hypervisor shows of its processors.
  void MakeVirtual();

  // Writes any file below the root, its folders included.
  void Write(const std::string& path, const std::string& text);
  void Link(const std::string& path, const std::string& target_from_root);
  const std::string& root() const { return root_; }

 private:
  void AddPci(const Pci& pci, const std::string& folder, int numa_node);
  std::string CpuMap(int first, int count) const;
  void WriteCpuInfo(const std::string& flags);

  const std::string root_;
  const int nodes_;
  const int cpus_per_node_;
};

}  // namespace onecopy::testing
