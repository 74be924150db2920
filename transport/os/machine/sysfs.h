// What the kernel tells of devices in files, below any root. Reading fails by being empty: a file
// that is not there says nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onecopy::sysfs {

// The first line of a file, without blanks at its end; empty where it cannot be read.
std::string ReadLine(const std::string& file);
// The whole of a file, at most a mebibyte.
std::string ReadAll(const std::string& file);
// The entries of a folder, in order; none where it cannot be read.
std::vector<std::string> List(const std::string& folder);

// The PCI address of the device that the link or folder `path` leads to or lies below (the last
// one in its real path); empty for a device that is not on PCI.
std::string PciAddressOf(const std::string& path);

struct RdmaDevice {
  std::string name;     // "mlx5_0"
  std::string address;  // of its PCI function; empty: none
  bool emulated = false;
};
// /sys/class/infiniband below `root`. A device counts as software by its driver's own words (rxe
// has an attribute `parent`; both describe themselves so), or because it is on no bus.
std::vector<RdmaDevice> RdmaDevices(const std::string& root);

// Whether /proc/cpuinfo below `root` lists the flag for the first processor.
bool HasCpuFlag(const std::string& root, std::string_view flag);

}  // namespace onecopy::sysfs
