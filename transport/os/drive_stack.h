// What lies between a file system and the drives below it, as the kernel tells in sysfs.
#pragma once

#include <string>
#include <vector>

namespace onecopy::os {

struct DriveStack {
  // From the file system down: "raid0", "LVM", "multipath", "crypt", "loop", "device-mapper".
  std::vector<std::string> layers;
  std::vector<std::string> drives;  // "nvme0n1", whatever the partition; empty: no block device
};

// Of the block device of that number, "259:1", below `root`: "" is this machine. Reads some files
// of the kernel's; what is not there says nothing.
DriveStack ReadDriveStack(const std::string& root, const std::string& device);

}  // namespace onecopy::os
