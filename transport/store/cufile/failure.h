// Converts the library's errors to ours.
#pragma once

#include <sys/types.h>

#include <string>

#include "onecopy/status.h"
#include "transport/shim/cufile.h"

namespace onecopy::cufile {

// Of a call that gives an error. `what` was being done: "registering ./weights.bin".
Status Failure(const std::string& what, const shim::cufile::Error& error);

// Of a read or write, which gives -1 with `native` errno, or a code, negative.
Status IoFailure(const std::string& what, ssize_t result, int native);

// Whether there was no room for the memory in what the drive can reach of the GPU: its BAR1.
bool IsOutOfBar1(const shim::cufile::Error& error);

}  // namespace onecopy::cufile
