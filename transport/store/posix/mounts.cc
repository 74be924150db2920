#include "transport/store/posix/mounts.h"

#include <linux/magic.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>

namespace onecopy::posix {
namespace {

// A way that takes one copy more, or that the kind does not suggest, must be that much faster, each
// time that it was tried.
constexpr double kClearly = 1.25;

// Numbers that are in no header of the kernel's are those of the file systems' own sources.
constexpr std::array kKinds = {FileSystemKind{EXT4_SUPER_MAGIC, "ext4", false, true},
                               FileSystemKind{0x58465342, "xfs", false, true},
                               FileSystemKind{BTRFS_SUPER_MAGIC, "btrfs"},
                               FileSystemKind{F2FS_SUPER_MAGIC, "f2fs"},
                               FileSystemKind{0x2fc12fc1, "zfs"},
                               FileSystemKind{0xca451a4e, "bcachefs"},
                               FileSystemKind{TMPFS_MAGIC, "tmpfs", true},
                               FileSystemKind{RAMFS_MAGIC, "ramfs", true},
                               FileSystemKind{HUGETLBFS_MAGIC, "hugetlbfs", true},
                               FileSystemKind{OVERLAYFS_SUPER_MAGIC, "overlay"},
                               FileSystemKind{NFS_SUPER_MAGIC, "nfs"},
                               FileSystemKind{0xff534d42, "cifs"},
                               FileSystemKind{0xfe534d42, "smb2"},
                               FileSystemKind{0x00c36400, "ceph"},
                               FileSystemKind{0x0bd00bd0, "lustre"},
                               FileSystemKind{0x19830326, "beegfs"},
                               FileSystemKind{0x47504653, "gpfs"},
                               FileSystemKind{0xaad7aaea, "panfs"},
                               FileSystemKind{0x01021997, "9p"},
                               FileSystemKind{0x6a656a63, "virtiofs"}};
constexpr FileSystemKind kUnknown{0, "an unknown file system"};

std::string Words(const FileSystemKind& kind, const Verdict& verdict, bool tried) {
  std::string words = kind.name;
  if (kind.in_memory) return words + ", in memory";
  words += verdict.direct ? ", O_DIRECT" : ", page cache";
  if (!verdict.direct_to_cached) return words + (tried ? ", too slow to be measured" : "");
  std::array<char, 64> ratio{};
  std::snprintf(ratio.data(), ratio.size(), ", O_DIRECT measured as %.2f of the page cache",
                *verdict.direct_to_cached);
  return words + ratio.data();
}

}  // namespace

const FileSystemKind& KindOf(unsigned long magic) {
  // Some kernels give what is a number of 32 bits as one with a sign.
  const unsigned long number = magic & 0xffffffffUL;
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const auto& kind) { return kind.magic == number; });
  return found == kKinds.end() ? kUnknown : *found;
}

Verdict JudgeWays(const Trial::Ratios& direct_to_cached, bool kind_direct) {
  Verdict verdict{kind_direct, direct_to_cached[Trial::kPairs / 2]};
  if (direct_to_cached.back() < 1 / kClearly) verdict.direct = false;
  if (direct_to_cached.front() > kClearly) verdict.direct = true;
  return verdict;
}

Verdict Mounts::Of(dev_t mount, const FileSystemKind& kind, const std::string& drives) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(mount);
  // Its number may be another file system's by now.
  if (found != known_.end() && found->second.kind == &kind) {
    found->second.drives = drives;
    return found->second.verdict;
  }
  const Verdict verdict{kind.direct, {}};
  if (found != known_.end()) {
    if (!found->second.trying) found->second = {&kind, verdict, drives};
  } else if (known_.size() < kMost) {
    known_.emplace(mount, Known{&kind, verdict, drives});
  }
  return verdict;
}

std::unique_ptr<Mounts::Turn> Mounts::Take(dev_t mount) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(mount);
  if (found == known_.end() || found->second.tried || found->second.trying) return nullptr;
  found->second.trying = true;
  return std::make_unique<Turn>(*this, mount);
}

void Mounts::End(dev_t mount, const std::optional<Verdict>& verdict, bool tried) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(mount);
  if (found == known_.end()) return;
  found->second.trying = false;
  if (tried) found->second.tried = true;
  if (verdict) found->second.verdict = *verdict;
}

std::map<std::string, std::string> Mounts::Describe() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> words;
  for (const auto& [mount, known] : known_) {
    words["mount " + std::to_string(major(mount)) + ":" + std::to_string(minor(mount))] =
        Words(*known.kind, known.verdict, known.tried) +
        (known.drives.empty() ? "" : "; drive: " + known.drives);
  }
  return words;
}

}  // namespace onecopy::posix
