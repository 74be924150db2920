// Copies between a file and memory of this process, by the client itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "onecopy/file_copy.h"

namespace onecopy::client {

// Such a copy, which began then and ends now.
FileCopy ClientCopy(const std::string& node, bool reads_file, uint64_t bytes, uint64_t parts,
                    std::chrono::steady_clock::time_point began);

// Memory of this process that is not a buffer, as an end of a copy for people.
Endpoint OwnMemoryEnd(const Client& client);

}  // namespace onecopy::client
