// Two RDMA ports of this machine between which works and plain programs move bytes.
#pragma once

#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

struct RdmaPort {
  std::string device;     // libibverbs' name
  std::string address;    // an IPv4 address of its network device
  int gid_index = 0;      // RoCE v2, of that address
  bool emulated = false;  // a software device (rxe, siw)
};

// Of the machine's active RoCE ports, by name, the first is east's and the second west's; a machine
// with one has it at both ends.
struct RdmaPorts {
  RdmaPort east;
  RdmaPort west;
};

// FAILED_PRECONDITION (NO_RDMA_DEVICE) where there is none, with what there is instead. `sys` is
// where sysfs is mounted.
Result<RdmaPorts> FindRdmaPorts(const std::string& sys = "/sys");

}  // namespace onecopy::bench
