// A worker's address for other daemons of this machine and of this user: in a sealed file in memory
// that they open through /proc, which the kernel lets only those do who may look into this process
// anyway. So what UCX takes apart was written by somebody who could as well write our memory.
#pragma once

#include <cstdint>
#include <string>

#include "onecopy/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy::ucx {

// The file lives as long as the descriptor.
Result<os::UniqueFd> PublishAddress(const std::string& address);

// PERMISSION_DENIED where the file is not there, is not this user's, or may still change.
Result<std::string> ReadAddress(uint32_t process, uint32_t descriptor);

}  // namespace onecopy::ucx
