// Network devices and their ports.
#include <algorithm>

#include "client/doctor/rules.h"
#include "onecopy/size.h"

namespace onecopy::doctor {
namespace {

// What RoCE v2 adds to a payload inside a network frame, as the kernel reckons.
constexpr uint32_t kRoceHeaderBytes = 96;

// The largest payload of the five that RDMA knows which a network device of this MTU carries.
uint32_t RoceMtu(uint32_t netdev_mtu) {
  for (const uint32_t mtu : {4096U, 2048U, 1024U, 512U, 256U}) {
    if (netdev_mtu >= mtu + kRoceHeaderBytes) return mtu;
  }
  return 0;
}

std::string PortName(const Nic& nic, const Port& port) {
  return nic.name + " port " + std::to_string(port.number);
}

bool Usable(const Port& port) { return port.active() && (!port.ethernet() || port.HasRoceV2()); }

// Whether any hardware port could carry something.
bool AnyUsable(const Facts& facts) {
  return std::any_of(facts.nics.begin(), facts.nics.end(), [](const Nic& nic) {
    return !nic.emulated && std::any_of(nic.ports.begin(), nic.ports.end(), Usable);
  });
}

void EvaluateMtu(const Nic& nic, const Port& port, Findings& findings) {
  if (port.active_mtu == 0) return;
  const uint32_t possible = std::min(port.max_mtu == 0 ? 4096 : port.max_mtu, 4096U);
  const std::string seen =
      PortName(nic, port) + " moves " + std::to_string(port.active_mtu) + " bytes a packet";
  if (port.ethernet() && port.netdev_mtu != 0 && port.active_mtu < RoceMtu(port.netdev_mtu)) {
    findings.Add("MTU_MISMATCH", Severity::kSlows,
                 seen + ", and " + port.netdev + " has an MTU of " +
                     std::to_string(port.netdev_mtu) + ", enough for " +
                     std::to_string(RoceMtu(port.netdev_mtu)),
                 "ip link set " + port.netdev + " down; ip link set " + port.netdev +
                     " up, so that the port takes over the MTU");
  } else if (port.ethernet() && port.netdev_mtu != 0 && RoceMtu(port.netdev_mtu) < possible) {
    findings.Add(
        "MTU_MISMATCH", Severity::kSlows,
        seen + " of the " + std::to_string(possible) + " that it can, because " + port.netdev +
            " has an MTU of " + std::to_string(port.netdev_mtu),
        "ip link set " + port.netdev + " mtu 9000, at both ends and on the switches between");
  } else if (!port.ethernet() && port.active_mtu < possible) {
    findings.Add("MTU_MISMATCH", Severity::kSlows,
                 seen + " of the " + std::to_string(possible) + " that it can",
                 "raise the MTU of the partition in the subnet manager (partitions.conf, mtu=5)");
  }
}

}  // namespace

void EvaluateNics(const Facts& facts, Findings& findings) {
  if (facts.nics.empty()) {
    findings.Add("NO_RDMA_DEVICE", Severity::kBlocks, "/sys/class/infiniband is empty",
                 "install a NIC that supports InfiniBand or RoCE v2, and load its driver: modprobe "
                 "mlx5_ib (NVIDIA), bnxt_re (Broadcom), irdma (Intel), efa (EC2)");
    return;
  }
  std::vector<std::string> names;
  for (const Nic& nic : facts.nics) names.push_back(nic.name);
  if (!facts.HasHardwareNic()) {
    findings.Add("EMULATED_DEVICE_ONLY", Severity::kBlocks,
                 "every RDMA device here is software: " + Join(names),
                 "install a NIC that supports InfiniBand or RoCE v2; a software device is for "
                 "tests only (--allow-emulated)");
  }
  std::vector<std::string> closed;
  for (const DeviceFile& file : facts.device_files) {
    if (!file.error.empty()) closed.push_back(file.path + ": " + file.error);
  }
  if (facts.device_files.empty()) {
    findings.Add(
        "INFINIBAND_NOT_ACCESSIBLE", Severity::kBlocks,
        "RDMA devices exist (" + Join(names) + "), but /dev/infiniband/uverbs* does not",
        "modprobe ib_uverbs; for a container, pass the devices through: --device=/dev/infiniband");
  } else if (!closed.empty()) {
    findings.Add(
        "INFINIBAND_NOT_ACCESSIBLE",
        closed.size() == facts.device_files.size() ? Severity::kBlocks : Severity::kSlows,
        "this user cannot open " + Join(closed, 4),
        "chmod 666 /dev/infiniband/uverbs*, or add the daemon's user to the group that owns them");
  }
  if (!facts.verbs.found && facts.HasHardwareNic()) {
    findings.Add("VERBS_LIBRARY_MISSING", Severity::kBlocks, facts.verbs.detail,
                 "apt install libibverbs1 ibverbs-providers");
  }
}

void EvaluatePorts(const Facts& facts, Findings& findings) {
  const Severity severity = AnyUsable(facts) ? Severity::kSlows : Severity::kBlocks;
  for (const Nic& nic : facts.nics) {
    if (nic.emulated) continue;
    for (const Port& port : nic.ports) {
      if (!port.active()) {
        findings.Add("PORT_DOWN", severity, PortName(nic, port) + " is " + port.state,
                     port.ethernet()
                         ? "ip link set " + (port.netdev.empty() ? "NETDEV" : port.netdev) +
                               " up; if it is up already, check the cable and the switch"
                         : "check the cable, and that a subnet manager runs: sminfo");
      } else if (port.ethernet() && !port.HasRoceV2()) {
        findings.Add("NO_ROCE_V2_GID", severity,
                     PortName(nic, port) + " is Ethernet, and none of its " +
                         std::to_string(port.gids.size()) + " GIDs is RoCE v2",
                     "ip addr add ADDRESS/PREFIX dev " +
                         (port.netdev.empty() ? "NETDEV" : port.netdev) +
                         "; and switch the NIC to RoCE v2 (cma_roce_mode -d " + nic.name + " -p " +
                         std::to_string(port.number) + " -m 2)");
      }
      if (port.active()) EvaluateMtu(nic, port, findings);
    }
  }
}

}  // namespace onecopy::doctor
