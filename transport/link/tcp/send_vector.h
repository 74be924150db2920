// The one call that takes payload out of memory.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace onecopy::tcp {

// sendmsg that neither waits nor raises SIGPIPE. A function of its own for the sake of
// ThreadSanitizer (see tests/support/tsan.supp): the bytes may be written again as soon as the peer
// says that it has them, an order that only the network knows.
[[gnu::noinline]] inline ssize_t SendVector(int fd, iovec* vector, size_t count, int flags) {
  msghdr message{};
  message.msg_iov = vector;
  message.msg_iovlen = count;
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
}

}  // namespace onecopy::tcp
