// Servers whose topology somebody has published, as trees of sysfs.
#pragma once

#include <string>

#include "tests/support/sysfs_tree.h"

namespace onecopy::testing {

// NVIDIA DGX H100: eight GPUs, each below one PCIe switch with its own ConnectX-7. Pairs of GPU and
// NIC, and the NICs' buses: NVIDIA DGX H100 User Guide, table "Network Modules". The GPUs' buses,
// and that each pair has a host bridge of its own: `nvidia-smi` on such machines (GPU i to NIC i
// PIX, other pairs of a socket NODE, else SYS), as in github.com/deepseek-ai/DeepEP/issues/60.
void PlantDgxH100(SysfsTree& tree);

// NVIDIA DGX-2: two GPUs and a NIC below one switch, two such switches below another, two of those
// trees a socket. The rows of GPU0 to GPU4 of `nvidia-smi topo -m` in
// github.com/NVIDIA/nccl-tests/issues/78. Buses are made up.
void PlantDgx2(SysfsTree& tree);

// Two sockets with four GPUs each, the one NIC beside the second: the matrix in
// github.com/lattice/quda/issues/669. Buses are made up.
void PlantTwoSockets(SysfsTree& tree);

// Amazon EC2 p4d.24xlarge: GPUs, EFA devices and NVMe flat on the buses of a virtual machine, no
// bridge anywhere. The output of lspci in github.com/aws/aws-ofi-nccl/issues/64.
void PlantEc2P4d(SysfsTree& tree);

}  // namespace onecopy::testing
