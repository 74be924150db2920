// A worker's address for other daemons of this machine and of this user: in a sealed file in memory
// that they open through /proc. The kernel allows that only to processes that may inspect this one
// anyway. So the address that UCX parses was written by a process that could also write our memory.
#pragma once

#include <cstdint>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::ucx {

// The file lives as long as the descriptor.
Result<os::UniqueFd> PublishAddress(const std::string& address);

// PERMISSION_DENIED where the file is not there, is not this user's, or may still change.
Result<std::string> ReadAddress(uint32_t process, uint32_t descriptor);

}  // namespace onecopy::ucx
