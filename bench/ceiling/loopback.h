// Sockets with both ends in this process.
#pragma once

#include <vector>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::bench {

struct SocketPair {
  os::UniqueFd sender;
  os::UniqueFd receiver;
};

// So many connections over loopback, with TCP_NODELAY, blocking ones. Waits until all are there.
Result<std::vector<SocketPair>> ConnectOverLoopback(unsigned pairs);

}  // namespace onecopy::bench
