// Exit statuses of our programs.
#pragma once

#include "onecopy/status.h"

namespace onecopy {

// 0 for success; see the table in docs/architecture.md.
int ExitStatusOf(Code code);

}  // namespace onecopy
