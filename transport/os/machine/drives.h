// Which drives a block device's bytes are on, what lies between, and where the drives sit, as sysfs
// tells it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onecopy::os {

struct Drive {
  std::string name;        // of the whole disk: "nvme0n1", "sda"
  std::string address;     // of the PCI function that it is behind, as NormalPciAddress writes it
  int32_t numa_node = -1;  // of that function; -1: the firmware does not say
  std::string cpus;        // processors near to it, "0-55,112-167"; empty: not known

  friend bool operator==(const Drive&, const Drive&) = default;
};

struct Drives {
  // More than any array has; of one with more nothing is said.
  static constexpr size_t kMost = 64;

  // In the order of their names; one that several controllers reach (NVMe multipath) once for each
  // of them.
  std::vector<Drive> drives;
  std::string why_none;  // why there are none, where that is so

  // Whatever bus they are on: the disks ("nvme0n1"), and what is between these and the device, from
  // it down, each once: "raid0", "LVM", "multipath", "crypt", "loop", "device-mapper".
  std::vector<std::string> names;
  std::vector<std::string> layers;
};

// Any thread. Of a block device by its number, below `root`: through partitions, and what lies on
// several devices (md, dm, bcache), to all the disks. None where one of them is on no bus, as what
// is behind a network, or is a file: they are not the whole then. Asks no drive for anything.
Drives DrivesOf(dev_t device, const std::string& root = "/");
// By its number as text, "259:1".
Drives DrivesOf(const std::string& number, const std::string& root = "/");

}  // namespace onecopy::os
