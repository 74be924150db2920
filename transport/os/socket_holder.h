// Which process has the far end of a Unix socket open.
#pragma once

#include <cstdint>
#include <optional>

namespace onecopy::os {

// Whether the process `pid` has the socket open that the connected Unix socket `fd` leads to. No
// value where that cannot be seen from here: it takes a debugger's rights over the process, and the
// kernel's table of Unix sockets.
std::optional<bool> HoldsFarEnd(int32_t pid, int fd);

}  // namespace onecopy::os
