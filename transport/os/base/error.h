// errno as our errors.
#pragma once

#include <string>

#include "onecopy/status.h"

namespace onecopy::os {

// "No space left on device (ENOSPC)" and the like.
std::string ErrnoText(int error);

// A failure of `what` (such as "opening /run/x") with the code and reason that fit `error`.
Status ErrnoStatus(int error, const std::string& what, const std::string& remedy = {});

}  // namespace onecopy::os
