// On which drives files are, and near to which NUMA node, by what the kernel and the topology say.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "onecopy/topology.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/store.h"
#include "transport/os/machine/drives.h"
#include "transport/store/posix/mounts.h"

namespace onecopy::posix {

// Any thread. Reads links of sysfs, and asks no file system or drive for anything.
class DrivePlaces {
 public:
  // `root`: where sysfs is.
  explicit DrivePlaces(Topology topology, std::string root = "/");

  // Of what is on this block device, or on the file system of that number.
  DrivePlace Of(dev_t device, const FileSystemKind& kind);

 private:
  // Remembered, as long as the kernel still shows the same device by its number.
  struct Known {
    std::string folder;
    DrivePlace place;
  };
  static constexpr size_t kMost = 64;

  DrivePlace Look(dev_t device, const FileSystemKind& kind) const;
  DrivePlace PlaceOf(const os::Drives& found) const;

  const Topology topology_;
  const std::string root_;
  const bool several_;  // NUMA nodes, as far as a place may be believed
  Mutex mutex_;
  std::map<dev_t, Known> known_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::posix
