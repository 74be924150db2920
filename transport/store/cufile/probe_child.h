// The process in which the library is tried first.
#pragma once

#include <string>
#include <vector>

namespace onecopy::cufile {

// What `read` says where the GPU has other bytes than the file.
inline constexpr const char* kOtherBytes = "the bytes are not those of the file";

// What `batch` says where a batch did what it should, directly, and was counted entry by entry.
inline constexpr const char* kBatchWorks = "OK";
// What `step` says while a batch is tried: the last that is.
inline constexpr const char* kBatchStep = "trying a batch";

// Its last argument: whether compatibility mode is allowed, and whether a batch is tried.
inline constexpr const char* kStrict = "strict";
inline constexpr const char* kStrictWithBatches = "strict+batch";
inline constexpr const char* kLenient = "lenient";
inline constexpr const char* kLenientWithBatches = "lenient+batch";

// Opens the library and its driver, and reads a file of 1 MiB into a GPU's memory, where there is
// one. Says on standard output, a line "key=value" each, what it is about to do (`step`) and what
// came of it. `arguments`: the library, CUDA's (both empty: the system's), the folder for the file,
// and one of the modes above. Returns an exit status.
int RunProbeChild(const std::vector<std::string>& arguments);

}  // namespace onecopy::cufile
