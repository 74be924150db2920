// What a descriptor of another process is, found out without asking whatever stands behind it.
#pragma once

#include <string>

namespace onecopy::os {

enum class DescriptorKind {
  kMemoryFile,  // of the kernel's own memory, as a memfd
  kDmaBuf,
  kDevice,  // a character device, as the drivers' handles for memory are
  kOther,
};

// Asks the kernel alone: a file of a file system that a process serves may never answer, and so
// hold up whoever asks it anything, or closes it.
DescriptorKind KindOf(int fd);

// "a socket", "a pipe", "a directory", …: for messages.
std::string DescribeDescriptor(int fd);

}  // namespace onecopy::os
