// Limits, IOMMU, ACS, and where devices sit.
#include <algorithm>

#include "client/doctor/rules.h"
#include "onecopy/size.h"

namespace onecopy::doctor {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kEnoughToStart = 16 * kMiB;  // queue pairs, completion queues, control messages
constexpr uint64_t kEnough = 1024 * kMiB;       // pinned slots and hosts' buffers besides

void EvaluateMemlock(const Facts& facts, Findings& findings) {
  const Memlock& limit = facts.memlock;
  if (!limit.known || limit.unlimited || limit.bytes >= kEnough) return;
  findings.Add("MEMLOCK_LIMIT", limit.bytes < kEnoughToStart ? Severity::kBlocks : Severity::kSlows,
               "this process may lock " + FormatBytes(limit.bytes) + " of memory",
               "ulimit -l unlimited before the daemon starts (its systemd unit has "
               "LimitMEMLOCK=infinity; for a login, /etc/security/limits.d)");
}

void EvaluateHugePages(const Facts& facts, Findings& findings) {
  if (facts.huge_pages != "never") return;
  findings.Add("HUGE_PAGES_OFF", Severity::kSlows,
               "transparent huge pages are off (never), so drives fill the slots page by page",
               "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled before the daemon "
               "starts (for good: transparent_hugepage=madvise on the kernel's command line)");
}

bool Translates(const std::string& type) { return type.starts_with("DMA"); }

void EvaluateIommu(const Facts& facts, Findings& findings) {
  // A guest's IOMMU is its hypervisor's doing.
  if (!facts.virtual_machine.empty()) return;
  std::vector<std::string> translated;
  for (const Iommu& device : facts.iommu) {
    if (Translates(device.type)) translated.push_back(device.address + " " + device.type);
  }
  if (translated.empty()) return;
  findings.Add("IOMMU_IN_THE_WAY", Severity::kSlows,
               "the IOMMU translates for " + Join(translated, 4) +
                   ": traffic between GPU and NIC takes a detour through the processor",
               "boot with iommu=pt (in GRUB_CMDLINE_LINUX; then update-grub and reboot), or switch "
               "the IOMMU off in the firmware");
}

void EvaluateAcs(const Facts& facts, Findings& findings) {
  if (!facts.virtual_machine.empty()) return;
  if (!facts.acs.redirecting.empty()) {
    findings.Add(
        "ACS_IN_THE_WAY", Severity::kSlows,
        "PCIe access control (ACS) sends traffic between devices through the processor at " +
            Join(facts.acs.redirecting, 4),
        "switch ACS off in the firmware, or: setpci -s " + facts.acs.redirecting.front() +
            " ECAP_ACS+0x6.w=0000 (for each, after every boot)");
  } else if (!facts.acs.unreadable.empty() && facts.HasHardwareNic() && !facts.gpus.empty()) {
    findings.Add("ACS_NOT_CHECKED", Severity::kNote,
                 "the configuration space of " + Join(facts.acs.unreadable, 4) +
                     " is hidden from this user, so PCIe access control was not checked",
                 "sudo onecopy doctor");
  }
}

}  // namespace

void EvaluateMachine(const Facts& facts, Findings& findings) {
  EvaluateMemlock(facts, findings);
  EvaluateHugePages(facts, findings);
  EvaluateIommu(facts, findings);
  EvaluateAcs(facts, findings);
}

void EvaluatePlaces(const Facts& facts, Findings& findings) {
  const Topology& topology = facts.topology;
  std::vector<size_t> gpus;
  std::vector<size_t> nics;
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const TopologyDevice& device = topology.devices[i];
    if (device.kind == DeviceKind::kGpu) gpus.push_back(i);
    if (device.kind == DeviceKind::kNic && !device.emulated) nics.push_back(i);
  }
  if (topology.virtual_machine && gpus.size() + nics.size() >= 2) {
    findings.Add("FLAT_VM_TOPOLOGY", Severity::kNote,
                 "this is a virtual machine (" + facts.virtual_machine +
                     "): its PCIe topology is unknown, so only probes choose the lanes",
                 "describe the real machine in a file, and set topology = \"FILE\" in the "
                 "daemon's configuration");
    return;
  }
  if (nics.empty()) return;
  std::vector<std::string> across;
  for (const size_t gpu : gpus) {
    const bool far = std::all_of(nics.begin(), nics.end(), [&](size_t nic) {
      return topology.Between(gpu, nic) == Distance::kSystem;
    });
    if (far) across.push_back(topology.devices[gpu].name);
  }
  if (across.empty()) return;
  findings.Add("GPU_NIC_ACROSS_SOCKETS", Severity::kSlows,
               "every NIC is on the other socket from GPU " + Join(across, 4),
               "move a NIC to a slot of that socket, best below the GPU's PCIe switch (`onecopy "
               "node show` prints the matrix)");
}

}  // namespace onecopy::doctor
