// How a connection is made: what both ends have agreed on, and what this node wants.
#pragma once

#include <cstdint>
#include <string>

#include "transport/link/tcp/zero_copy.h"

namespace onecopy::tcp {

struct ConnectionOptions {
  std::string node;  // this one, and the other, for steps
  std::string peer;
  uint32_t data_lanes = 1;
  uint64_t chunk_bytes = 0;
  unsigned gets_per_lane = 2;
  uint64_t socket_buffer_bytes = 0;  // 0: the kernel's choice
  ZeroCopyUse zero_copy = ZeroCopyUse::kOff;
  bool several_addresses = false;  // of the owner
  bool encrypted = false;
  bool own_by_kernel = false;    // where it is encrypted: who does so at this end,
  bool owner_by_kernel = false;  // and, for a reader, at the owner's
};

}  // namespace onecopy::tcp
