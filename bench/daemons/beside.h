// Which onecopyd the bench starts.
#pragma once

#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

// `named`, or, where that is empty, the daemon of this build or installation: beside this program.
// NOT_FOUND where there is none.
Result<std::string> DaemonProgram(const std::string& named);

}  // namespace onecopy::bench
