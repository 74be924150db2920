// GPUs, their driver, and what lets a network device register their memory.
#include <algorithm>

#include "client/doctor/rules.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::doctor {
namespace {

constexpr int kOldestMajor = 5;
constexpr int kOldestMinor = 12;  // the first kernel with ibv_reg_dmabuf_mr

// The first kernel whose mlx5 driver maps a dma-buf by pages as large as its memory has; those
// before map it by the processor's.
constexpr int kLargePagesMajor = 6;
constexpr int kLargePagesMinor = 17;

bool IsBefore(const Kernel& kernel, int major, int minor) {
  return kernel.major != 0 &&
         (kernel.major < major || (kernel.major == major && kernel.minor < minor));
}

std::string NameOf(const Gpu& gpu) {
  return gpu.address + (gpu.name.empty() ? "" : " (" + gpu.name + ")");
}

template <typename Condition>
std::vector<std::string> GpusThat(const Facts& facts, Condition condition) {
  std::vector<std::string> names;
  for (const Gpu& gpu : facts.gpus) {
    if (condition(gpu)) names.push_back(NameOf(gpu));
  }
  return names;
}

void EvaluateDriver(const Facts& facts, Findings& findings) {
  const Part& driver = facts.driver;
  if (facts.gpus.empty() && (driver.found || driver.reason != reasons::kDriverFailed)) {
    findings.Add(
        "NO_GPU", Severity::kBlocks,
        driver.found ? "the driver shows no GPU" : "the PCI bus has no NVIDIA or AMD GPU",
        "install a GPU; for a container or virtual machine, pass one through (--gpus all)");
    return;
  }
  if (driver.found || (!facts.HasNvidiaGpu() && !facts.gpus.empty())) return;
  const std::string code = driver.reason.empty() ? "NO_DRIVER" : driver.reason;
  findings.Add(code, Severity::kBlocks, driver.detail,
               !driver.remedy.empty() && code != "NO_DRIVER"
                   ? driver.remedy
                   : "install NVIDIA's driver with the open kernel modules (apt install "
                     "nvidia-driver nvidia-open-kernel-dkms), then nvidia-smi must list the GPUs");
}

void EvaluatePeerAccess(const Facts& facts, Findings& findings) {
  if (!facts.driver.found) return;
  std::vector<std::string> pairs;
  for (const Gpu& gpu : facts.gpus) {
    for (const Gpu& other : facts.gpus) {
      if (gpu.address >= other.address || !gpu.nvidia || !other.nvidia) continue;
      const auto& peers = gpu.direct_peers;
      if (std::find(peers.begin(), peers.end(), other.address) != peers.end()) continue;
      pairs.push_back(gpu.address + " and " + other.address);
    }
  }
  if (pairs.empty()) return;
  findings.Add("P2P_DISABLED", Severity::kSlows,
               "the driver does not let these GPUs reach each other: " + Join(pairs, 4),
               "find the reason with nvidia-smi topo -p2p r; it needs NVLink, or PCIe without ACS "
               "redirection, and neither MIG nor vGPU");
}

void EvaluatePages(const Facts& facts, Findings& findings) {
  const bool dma_buf = std::any_of(facts.gpus.begin(), facts.gpus.end(),
                                   [](const Gpu& gpu) { return gpu.dma_buf.value_or(false); });
  if (!dma_buf || !IsBefore(facts.kernel, kLargePagesMajor, kLargePagesMinor)) return;
  std::vector<std::string> nics;
  for (const Nic& nic : facts.nics) {
    if (nic.driver == "mlx5_core") nics.push_back(nic.name);
  }
  if (nics.empty()) return;
  findings.Add("DMABUF_SMALL_PAGES", Severity::kNote,
               "the kernel is " + facts.kernel.release +
                   ", and mlx5 of Linux before 6.17 maps dma-bufs by the processor's pages, not by "
                   "a GPU's pages of 2 MiB: " +
                   Join(nics, 4) + " translate 512 times as many addresses",
               "if a probe is below expectation, run Linux 6.17 or later, or a driver of NVIDIA's "
               "(DOCA-OFED) that has the change; this kernel may have it too, if its distributor "
               "added it");
}

}  // namespace

void EvaluateGpus(const Facts& facts, Findings& findings) {
  EvaluateDriver(facts, findings);
  EvaluatePeerAccess(facts, findings);
  std::vector<std::string> small;
  for (const Gpu& gpu : facts.gpus) {
    if (gpu.bar1_bytes == 0 || gpu.total_bytes == 0 || gpu.bar1_bytes >= gpu.total_bytes) continue;
    small.push_back(NameOf(gpu) + " shows " + FormatBytes(gpu.bar1_bytes) + " of " +
                    FormatBytes(gpu.total_bytes));
  }
  if (!small.empty()) {
    findings.Add("BAR1_TOO_SMALL", Severity::kSlows,
                 "a NIC can reach GPU memory only through BAR1, and " + Join(small, 4),
                 "switch on \"Above 4G decoding\" and \"Resizable BAR\" in the firmware (on "
                 "workstation GPUs: displaymodeselector --gpumode compute)");
  }
  const auto off =
      GpusThat(facts, [](const Gpu& gpu) { return gpu.persistence && !*gpu.persistence; });
  if (!off.empty()) {
    findings.Add(
        "PERSISTENCE_OFF", Severity::kSlows,
        "persistence mode is off: " + Join(off, 4) +
            "; the driver shuts an unused GPU down and must restart it for the next program",
        "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1");
  }
}

void EvaluateRegistration(const Facts& facts, Findings& findings) {
  if (!facts.HasNvidiaGpu()) return;
  const auto without = GpusThat(facts, [](const Gpu& gpu) { return gpu.dma_buf && !*gpu.dma_buf; });
  const Kernel& kernel = facts.kernel;
  const bool old = IsBefore(kernel, kOldestMajor, kOldestMinor);
  const bool lacking = old || !kernel.options_off.empty();
  if (!lacking) EvaluatePages(facts, findings);
  if (without.empty() && !lacking) return;
  // nvidia_peermem is the other way to register GPU memory.
  const bool peermem = kernel.peermem.value_or(false);
  const Severity severity = peermem ? Severity::kNote : Severity::kBlocks;
  if (!without.empty()) {
    findings.Add("DMABUF_UNSUPPORTED_DRIVER", severity,
                 "the driver cannot export a dma-buf for the memory of " + Join(without, 4),
                 "install the driver's open kernel modules (apt install nvidia-open-kernel-dkms); "
                 "they need a Turing or later GPU and no vGPU");
  }
  if (lacking) {
    findings.Add(
        "DMABUF_UNSUPPORTED_KERNEL", severity,
        old ? "the kernel is " + kernel.release +
                  ", and network devices register dma-bufs from 5.12 on"
            : "the kernel " + kernel.release + " was built without " + Join(kernel.options_off),
        "run a distribution's kernel from 5.12 on, with CONFIG_DMA_SHARED_BUFFER and "
        "CONFIG_INFINIBAND_ON_DEMAND_PAGING");
  }
  if (peermem) return;
  findings.Add("PEERMEM_ABSENT", Severity::kBlocks,
               kernel.peermem ? "NICs cannot register GPU memory: dma-buf does not work here, and "
                                "the module nvidia_peermem is not loaded"
                              : "dma-buf does not work here, and /proc/modules, which would list "
                                "nvidia_peermem, cannot be read",
               "run modprobe nvidia_peermem (it comes with the driver), and load it at boot");
}

}  // namespace onecopy::doctor
