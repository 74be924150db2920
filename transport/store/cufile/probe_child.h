// The process in which the library is tried first.
#pragma once

#include <string>
#include <vector>

namespace onecopy::cufile {

// What `read` says where the GPU has other bytes than the file.
inline constexpr const char* kOtherBytes = "the bytes are not those of the file";

// Opens the library and its driver, and reads a file of 1 MiB into a GPU's memory, where there is
// one. Says on standard output, a line "key=value" each, what it is about to do (`step`) and what
// came of it. `arguments`: the library, CUDA's (both empty: the system's), the folder for the file,
// and "strict" or "lenient": whether compatibility mode is allowed. Returns an exit status.
int RunProbeChild(const std::vector<std::string>& arguments);

}  // namespace onecopy::cufile
