// Two real daemons in the guest, each with one of its RDMA devices.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/guest.h"
#include "tests/support/node.h"

namespace onecopy::testing {

struct RdmaPairOptions {
  std::string config = {};       // of both, after what they need
  std::string west_config = {};  // of west alone
  std::vector<std::string> environment = {};
  std::function<void()> in_child = {};
  std::vector<std::string> west_devices = {"rxe1"};
  std::vector<std::string> east_devices = {"rxe0"};
};

// east on rxe0 (10.77.0.1) and west on rxe1 (10.77.0.2), of one uid domain.
struct RdmaPair {
  explicit RdmaPair(const RdmaPairOptions& options = {});

  Node west;
  Node east;
};

// What each device counted as received, both ways.
uint64_t PacketsReceived();

// How many of these the kernel has: "qp", "mr", "mw", "cq", "srq", of both devices.
size_t CountResources(const std::string& kind);

}  // namespace onecopy::testing
