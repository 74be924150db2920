#include "transport/os/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

namespace onecopy::os {

void UniqueFd::Reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

UniqueFd UniqueFd::Duplicate() const { return DuplicateOf(fd_); }

UniqueFd UniqueFd::DuplicateOf(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace onecopy::os
