// The last line that a program printed.
#pragma once

#include <string>

namespace onecopy::bench {

// The last line of a log, after ": "; empty where there is none.
std::string LastWord(const std::string& log);

}  // namespace onecopy::bench
