// Says what kind of thing a descriptor of another process is, without a call to what stands behind
// it.
#pragma once

#include <string>

namespace onecopy::os {

enum class DescriptorKind {
  kMemoryFile,  // of the kernel's own memory, as a memfd
  kDmaBuf,
  kDevice,  // a character device, as the drivers' handles for memory are
  kOther,
};

// Asks the kernel alone: a file system that a process serves may never answer, and then any thread
// that asks such a file anything, or closes it, waits for ever.
DescriptorKind KindOf(int fd);

// "a socket", "a pipe", "a directory", …: for messages.
std::string DescribeDescriptor(int fd);

}  // namespace onecopy::os
