// Finds where the GPUs, RDMA devices and NVMe drives of a machine are.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "onecopy/topology.h"

namespace onecopy {

// The machine below `root`: "/" is this one; another folder has the sys and proc of some machine,
// as a test plants them. Reads files only and touches no device. GPUs first, then network devices,
// then NVMe, each in the order of their names; what exceeds Topology::kMaxDevices is left out from
// the end.
//
// Any thread for "/". Another root is named to hwloc by the environment, which changes for the
// length of the call: no other thread may run then. INTERNAL (IO_ERROR) where hwloc fails.
Result<Topology> DiscoverTopology(const std::string& root = "/");

// Whether the machine below `root` is a virtual one, by its processors and firmware; the text says
// by what ("the cpu flag hypervisor", "DMI: QEMU Standard PC"), and is empty where it is not.
std::string VirtualMachineEvidence(const std::string& root = "/");

}  // namespace onecopy
