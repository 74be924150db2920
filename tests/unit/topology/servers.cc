#include "tests/unit/topology/servers.h"

#include <array>
#include <cstdio>

namespace onecopy::testing {
namespace {

std::string Address(int bus, int device = 0) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0000:%02x:%02x.0", bus, device);
  return text.data();
}

std::string Bus(int bus) { return Address(bus).substr(0, 7); }

}  // namespace

void PlantDgxH100(SysfsTree& tree) {
  struct Pair {
    int gpu_bus;
    int nic_bus;
    const char* nic;
  };
  constexpr std::array<Pair, 8> kPairs = {{{0x1b, 0x18, "mlx5_0"},
                                           {0x43, 0x40, "mlx5_3"},
                                           {0x52, 0x4f, "mlx5_4"},
                                           {0x61, 0x5e, "mlx5_5"},
                                           {0x9d, 0x9a, "mlx5_6"},
                                           {0xc3, 0xc0, "mlx5_9"},
                                           {0xd1, 0xce, "mlx5_10"},
                                           {0xdf, 0xdc, "mlx5_11"}}};
  for (size_t i = 0; i < kPairs.size(); ++i) {
    const Pair& pair = kPairs[i];
    const int root = pair.nic_bus - 3;
    const Pci up = PciSwitch(Address(root + 1),
                             {PciPort(Address(root + 2, 0), {PciNic(Address(pair.nic_bus))}),
                              PciPort(Address(root + 2, 1), {PciGpu(Address(pair.gpu_bus))})});
    tree.AddHostBridge(Bus(root), i < 4 ? 0 : 1, {PciPort(Address(root, 1), {up})});
    tree.AddRdma(pair.nic, Address(pair.nic_bus), {.link_layer = "InfiniBand", .gids = {}});
  }
  // Two disks of the system, right below a host bridge of the first socket.
  tree.AddHostBridge(Bus(0x00), 0,
                     {PciPort(Address(0x00, 1), {PciNvme(Address(0x01))}),
                      PciPort(Address(0x00, 2), {PciNvme(Address(0x02))})});
  tree.AddDisk("nvme0n1", Address(0x01));
  tree.AddDisk("nvme1n1", Address(0x02));
}

void PlantDgx2(SysfsTree& tree) {
  int nic = 0;
  for (int quarter = 0; quarter < 4; ++quarter) {
    const int root = 0x10 + quarter * 0x30;
    int bus = root + 3;  // after the upper switch: its port up, its ports down
    std::vector<Pci> ports;
    for (int half = 0; half < 2; ++half) {
      const int lower = bus;  // port up; its ports down are on the next bus
      std::vector<Pci> leaves;
      leaves.push_back(PciPort(Address(lower + 1, 0), {PciGpu(Address(lower + 2))}));
      leaves.push_back(PciPort(Address(lower + 1, 1), {PciGpu(Address(lower + 3))}));
      leaves.push_back(PciPort(Address(lower + 1, 2), {PciNic(Address(lower + 4))}));
      ports.push_back(
          PciPort(Address(root + 2, half), {PciSwitch(Address(lower), std::move(leaves))}));
      bus += 5;
    }
    tree.AddHostBridge(
        Bus(root), quarter / 2,
        {PciPort(Address(root, 1), {PciSwitch(Address(root + 1), std::move(ports))})});
    for (int half = 0; half < 2; ++half) {
      tree.AddRdma("mlx5_" + std::to_string(nic++), Address(root + 3 + half * 5 + 4));
    }
  }
}

void PlantTwoSockets(SysfsTree& tree) {
  for (int socket = 0; socket < 2; ++socket) {
    const int root = socket == 0 ? 0x00 : 0x80;
    std::vector<Pci> ports;
    for (int half = 0; half < 2; ++half) {
      const int lower = root + 3 + half * 4;
      ports.push_back(
          PciPort(Address(root + 2, half),
                  {PciSwitch(Address(lower),
                             {PciPort(Address(lower + 1, 0), {PciGpu(Address(lower + 2))}),
                              PciPort(Address(lower + 1, 1), {PciGpu(Address(lower + 3))})})}));
    }
    std::vector<Pci> below = {
        PciPort(Address(root, 1), {PciSwitch(Address(root + 1), std::move(ports))})};
    if (socket == 1) below.push_back(PciPort(Address(root, 2), {PciNic(Address(root + 0x10))}));
    tree.AddHostBridge(Bus(root), socket, below);
  }
  tree.AddRdma("mlx5_0", Address(0x90));
}

void PlantEc2P4d(SysfsTree& tree) {
  tree.MakeVirtual();
  int disk = 0;
  int nic = 0;
  for (const int bus : {0x10, 0x20, 0x90, 0xa0}) {
    Pci efa = PciNic(Address(bus, 0x1b));
    efa.vendor = 0x1d0f;
    efa.class_code = 0x020000;
    tree.AddHostBridge(Bus(bus), bus < 0x80 ? 0 : 1,
                       {efa, PciGpu(Address(bus, 0x1c)), PciGpu(Address(bus, 0x1d)),
                        PciNvme(Address(bus, 0x1e)), PciNvme(Address(bus, 0x1f))});
    tree.AddRdma("rdmap" + std::to_string(nic++), Address(bus, 0x1b));
    for (const int device : {0x1e, 0x1f}) {
      tree.AddDisk("nvme" + std::to_string(disk++) + "n1", Address(bus, device));
    }
  }
}

}  // namespace onecopy::testing
