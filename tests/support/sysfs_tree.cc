#include "tests/support/sysfs_tree.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace onecopy::testing {
namespace {

namespace fs = std::filesystem;

template <typename... Values>
std::string Format(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

uint8_t BusOf(const std::string& address) {
  return static_cast<uint8_t>(std::stoul(address.substr(5, 2), nullptr, 16));
}

uint8_t LastBus(const Pci& pci) {
  uint8_t last = BusOf(pci.address);
  for (const Pci& below : pci.below) last = std::max(last, LastBus(below));
  return last;
}

// The configuration space: header, and for a bridge the extended capability ACS (PCIe base
// specification: id 0x000d, its control register 6 bytes on).
std::string Config(const Pci& pci) {
  std::string config(4096, '\0');
  const auto put16 = [&config](size_t at, unsigned value) {
    config[at] = static_cast<char>(value & 0xff);
    config[at + 1] = static_cast<char>(value >> 8 & 0xff);
  };
  put16(0, pci.vendor);
  put16(2, 0x1234);
  config[9] = static_cast<char>(pci.class_code & 0xff);
  put16(10, pci.class_code >> 8);
  if (!pci.below.empty()) {
    config[0x0e] = 1;
    config[0x18] = static_cast<char>(BusOf(pci.address));
    config[0x19] = static_cast<char>(BusOf(pci.below.front().address));
    config[0x1a] = static_cast<char>(LastBus(pci));
    put16(0x100, 0x000d);
    put16(0x102, 1);  // version 1, no next capability
    put16(0x104, 0x1f);
    put16(0x106, pci.acs_redirect ? 0x1d : 0);
  }
  if (pci.no_config) config.resize(64);
  return config;
}

}  // namespace

Pci PciGpu(const std::string& address) { return {address, 0x030200, 0x10de}; }
Pci PciNic(const std::string& address) { return {address, 0x020700, 0x15b3}; }
Pci PciNvme(const std::string& address) { return {address, 0x010802, 0x144d}; }
Pci PciPort(const std::string& address, std::vector<Pci> below) {
  return {address, 0x060400, 0x1000, std::move(below)};
}
Pci PciSwitch(const std::string& up, std::vector<Pci> ports) {
  return PciPort(up, std::move(ports));
}

SysfsTree::SysfsTree(std::string root, int nodes, int cpus_per_node)
    : root_(std::move(root)), nodes_(nodes), cpus_per_node_(cpus_per_node) {
  const std::string all = Format("0-%d\n", nodes * cpus_per_node - 1);
  for (const char* list : {"online", "possible", "present"}) {
    Write(std::string("sys/devices/system/cpu/") + list, all);
  }
  for (int cpu = 0; cpu < nodes * cpus_per_node; ++cpu) {
    const std::string folder = Format("sys/devices/system/cpu/cpu%d/topology/", cpu);
    const int node = cpu / cpus_per_node;
    Write(folder + "physical_package_id", Format("%d\n", node));
    Write(folder + "core_id", Format("%d\n", cpu % cpus_per_node));
    Write(folder + "thread_siblings", CpuMap(cpu, 1));
    Write(folder + "core_siblings", CpuMap(node * cpus_per_node, cpus_per_node));
  }
  Write("sys/devices/system/node/online", nodes == 1 ? "0\n" : Format("0-%d\n", nodes - 1));
  for (int node = 0; node < nodes; ++node) {
    const std::string folder = Format("sys/devices/system/node/node%d/", node);
    Write(folder + "cpumap", CpuMap(node * cpus_per_node, cpus_per_node));
    Write(folder + "meminfo", Format("Node %d MemTotal: 1048576 kB\n", node));
  }
  Write("proc/meminfo", Format("MemTotal: %d kB\n", 1048576 * nodes));
  WriteCpuInfo("fpu vme de");
}

void SysfsTree::MakeVirtual() { WriteCpuInfo("fpu vme de hypervisor"); }

void SysfsTree::WriteCpuInfo(const std::string& flags) {
  std::string text;
  for (int cpu = 0; cpu < nodes_ * cpus_per_node_; ++cpu) {
    text += Format("processor\t: %d\nvendor_id\t: GenuineIntel\n", cpu) + "flags\t\t: " + flags +
            "\n\n";
  }
  Write("proc/cpuinfo", text);
}

std::string SysfsTree::CpuMap(int first, int count) const {
  const int words = (nodes_ * cpus_per_node_ + 31) / 32;
  std::string map;
  for (int word = words - 1; word >= 0; --word) {
    uint32_t bits = 0;
    for (int bit = 0; bit < 32; ++bit) {
      const int cpu = word * 32 + bit;
      if (cpu >= first && cpu < first + count) bits |= uint32_t{1} << bit;
    }
    map += (map.empty() ? "" : ",") + Format("%08x", bits);
  }
  return map + "\n";
}

void SysfsTree::Write(const std::string& path, const std::string& text) {
  const fs::path file = fs::path(root_) / path;
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
}

void SysfsTree::Link(const std::string& path, const std::string& target_from_root) {
  const fs::path link = fs::path(root_) / path;
  fs::create_directories(link.parent_path());
  const fs::path target = fs::path(root_) / target_from_root;
  fs::remove(link);
  fs::create_symlink(fs::relative(target, link.parent_path()), link);
}

void SysfsTree::AddHostBridge(const std::string& bus, int numa_node,
                              const std::vector<Pci>& below) {
  for (const Pci& pci : below) AddPci(pci, "sys/devices/pci" + bus, numa_node);
}

void SysfsTree::AddPci(const Pci& pci, const std::string& parent, int numa_node) {
  const std::string folder = parent + "/" + pci.address;
  Write(folder + "/class", Format("0x%06x\n", pci.class_code));
  Write(folder + "/vendor", Format("0x%04x\n", pci.vendor));
  for (const char* file : {"device", "subsystem_vendor", "subsystem_device"}) {
    Write(folder + "/" + file, "0x1234\n");
  }
  Write(folder + "/revision", "0xa1\n");
  Write(folder + "/numa_node", Format("%d\n", numa_node));
  Write(folder + "/local_cpus", numa_node < 0 ? CpuMap(0, nodes_ * cpus_per_node_)
                                              : CpuMap(numa_node * cpus_per_node_, cpus_per_node_));
  const int first = std::max(numa_node, 0) * cpus_per_node_;
  const int last = numa_node < 0 ? nodes_ * cpus_per_node_ : first + cpus_per_node_;
  Write(folder + "/local_cpulist", Format("%d-%d\n", first, last - 1));
  Write(folder + "/config", Config(pci));
  if (pci.vendor == 0x10de) {
    const uint64_t start = 0x20000000000;
    Write(folder + "/resource",
          Format("0x%016llx 0x%016llx 0x0000000000140204\n", 0xd0000000ULL, 0xd0ffffffULL) +
              Format("0x%016llx 0x%016llx 0x000000000014220c\n",
                     static_cast<unsigned long long>(start),
                     static_cast<unsigned long long>(start + pci.bar1_bytes - 1)));
  }
  Link("sys/bus/pci/devices/" + pci.address, folder);
  for (const Pci& below : pci.below) AddPci(below, folder, numa_node);
}

std::string SysfsTree::FolderOf(const std::string& address) const {
  const fs::path link = fs::path(root_) / "sys/bus/pci/devices" / address;
  return fs::relative(fs::canonical(link), fs::canonical(root_)).string();
}

void SysfsTree::AddRdma(const std::string& name, const std::string& address, const RdmaPort& port) {
  const std::string parent = address.empty() ? "sys/devices/virtual" : FolderOf(address);
  const std::string folder = parent + "/infiniband/" + name;
  Write(folder + "/node_desc", address.empty() ? "rxe\n" : "host " + name + "\n");
  Write(folder + "/node_type", "1: CA\n");
  const std::string port_folder = folder + "/ports/1/";
  Write(port_folder + "state", port.state + "\n");
  Write(port_folder + "link_layer", port.link_layer + "\n");
  Write(port_folder + "rate", port.rate + "\n");
  for (size_t i = 0; i < port.gids.size(); ++i) {
    Write(port_folder + "gids/" + std::to_string(i), port.gids[i].first + "\n");
    Write(port_folder + "gid_attrs/types/" + std::to_string(i), port.gids[i].second + "\n");
    if (!port.netdev.empty()) {
      Write(port_folder + "gid_attrs/ndevs/" + std::to_string(i), port.netdev + "\n");
    }
  }
  if (!port.netdev.empty()) {
    Write(parent + "/net/" + port.netdev + "/mtu", std::to_string(port.netdev_mtu) + "\n");
    Link("sys/class/net/" + port.netdev, parent + "/net/" + port.netdev);
  }
  if (!address.empty()) Link(folder + "/device", parent);
  Link("sys/class/infiniband/" + name, folder);
}

void SysfsTree::AddBlock(const std::string& number, const std::string& folder,
                         const std::vector<std::string>& members) {
  Write(folder + "/dev", number + "\n");
  Link("sys/dev/block/" + number, folder);
  const std::string name = fs::path(folder).filename().string();
  Link("sys/class/block/" + name, folder);
  for (const std::string& member : members) {
    const fs::path real = fs::canonical(fs::path(root_) / "sys/class/block" / member);
    Link(folder + "/slaves/" + member, fs::relative(real, fs::canonical(root_)).string());
  }
}

void SysfsTree::AddDisk(const std::string& name, const std::string& address) {
  const std::string controller = name.substr(0, name.find('n', 1));
  const std::string above = FolderOf(address) + "/nvme/" + controller;
  Write(above + "/model", "disk\n");
  Write(above + "/" + name + "/size", "1000\n");
  Write(above + "/" + name + "/queue/hw_sector_size", "512\n");
  Link(above + "/" + name + "/device", above);
  Link("sys/class/block/" + name, above + "/" + name);
}

}  // namespace onecopy::testing
