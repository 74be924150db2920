// Files and memory of GPUs: what keeps drives from reaching it. No part of the path between nodes,
// so nothing here blocks that.
#include <algorithm>
#include <array>

#include "client/doctor/rules.h"
#include "onecopy/reasons.h"

namespace onecopy::doctor {
namespace {

constexpr std::array kOnDrives = {"ext4", "xfs"};
// Those that GPUDirect Storage knows by modules of their own.
constexpr std::array kOthers = {"lustre", "gpfs", "beegfs",  "wekafs",
                                "nfs",    "nfs4", "scatefs", "virtiofs"};

template <typename List>
bool Has(const List& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool OnNvme(const DriveMount& mount) {
  return std::any_of(mount.drives.begin(), mount.drives.end(),
                     [](const std::string& drive) { return drive.starts_with("nvme"); });
}

void EvaluateParts(const Facts& facts, Findings& findings) {
  const Storage& storage = facts.storage;
  if (storage.library && !storage.library->found) {
    findings.Add("CUFILE_ABSENT", Severity::kNote,
                 "drives cannot read files directly into GPU memory: " + storage.library->detail,
                 storage.library->remedy);
  }
  const bool absent = storage.nvidia_fs && !*storage.nvidia_fs;
  const bool peer_to_peer = storage.p2pdma.value_or(false);
  if (absent && !peer_to_peer) {
    findings.Add("NVIDIA_FS_ABSENT", Severity::kNote,
                 "the module nvidia_fs is not loaded; drives need it to reach GPU memory",
                 "install nvidia-fs (Ubuntu: nvidia-fs-dkms; CUDA's repository: nvidia-gds), then "
                 "modprobe nvidia-fs");
  }
  if (absent && storage.p2pdma && !*storage.p2pdma) {
    findings.Add(
        "KERNEL_WITHOUT_P2PDMA", Severity::kNote,
        "kernel " + facts.kernel.release +
            " has no p2pdma_pgmap_ops, so drives cannot reach GPU memory without nvidia-fs",
        "boot a kernel with CONFIG_PCI_P2PDMA=y, of 6.2 or later, or load nvidia-fs");
  }
}

void EvaluateDrivers(const Facts& facts, Findings& findings) {
  const Storage& storage = facts.storage;
  if (!storage.registered_drivers ||
      storage.registered_drivers->find("nvme") != std::string::npos) {
    return;
  }
  std::vector<std::string> drives;
  for (const DriveMount& mount : storage.mounts) {
    if (OnNvme(mount)) drives.insert(drives.end(), mount.drives.begin(), mount.drives.end());
  }
  if (drives.empty()) return;
  findings.Add(
      "DRIVE_DRIVER_NOT_REGISTERED", Severity::kNote,
      "nvidia-fs does not know the driver nvme (/proc/driver/nvidia-fs/modules), which drives " +
          Join(drives, 4),
      "load an nvme driver that registers with nvidia-fs (from MLNX_OFED or DOCA, built with "
      "--with-nvmf and GDS, or the kernel's), then reload nvidia-fs");
}

void EvaluateLayers(const Facts& facts, Findings& findings) {
  const Storage& storage = facts.storage;
  std::vector<std::string> hidden;
  std::vector<std::string> unknown;
  for (const DriveMount& mount : storage.mounts) {
    if (!OnNvme(mount)) continue;
    // Images that are mounted to be read, as programs come in them, have no user's data.
    if (Has(mount.layers, "loop") && !Has(kOnDrives, mount.type)) continue;
    std::vector<std::string> layers = mount.layers;
    // Of RAID nvidia-fs takes level 0; without it nothing but a drive as it is goes directly.
    if (storage.nvidia_fs.value_or(false)) std::erase(layers, "raid0");
    if (!layers.empty()) hidden.push_back(mount.folder + " (" + Join(layers) + ")");
    const bool journals =
        mount.type == "ext4" && mount.options.find("data=journal") != std::string::npos;
    if ((!Has(kOnDrives, mount.type) && !Has(kOthers, mount.type)) || journals) {
      unknown.push_back(mount.folder + " (" + mount.type + (journals ? ", data=journal" : "") +
                        ")");
    }
  }
  if (!hidden.empty()) {
    findings.Add(
        "DRIVE_BEHIND_LAYERS", Severity::kNote,
        "a layer that GPUDirect Storage does not support lies between files and NVMe drives: " +
            Join(hidden, 4),
        "put files for GPUs directly on a partition of a drive, or on RAID 0 with nvidia-fs");
  }
  if (!unknown.empty()) {
    findings.Add("FILE_SYSTEM_WITHOUT_GDS", Severity::kNote,
                 "GPUDirect Storage does not support these file systems: " + Join(unknown, 4),
                 "use ext4 with data=ordered, or xfs");
  }
}

void EvaluateMode(const Facts& facts, Findings& findings) {
  for (const StoreCapability& store : facts.daemon.capabilities.stores) {
    const Viability& why = store.viability;
    if (store.name != "cufile" || why.viable) continue;
    if (why.reason == reasons::kCompatibilityMode) {
      findings.Add("COMPATIBILITY_MODE", Severity::kNote, why.detail, why.remedy);
    } else if (why.reason == reasons::kDriverFailed) {
      findings.Add("CUFILE_FAILED", Severity::kNote, why.detail, why.remedy);
    }
  }
}

}  // namespace

void EvaluateStorage(const Facts& facts, Findings& findings) {
  EvaluateMode(facts, findings);
  if (!facts.HasNvidiaGpu()) return;
  EvaluateParts(facts, findings);
  EvaluateDrivers(facts, findings);
  EvaluateLayers(facts, findings);
}

}  // namespace onecopy::doctor
