#include "transport/os/sockets/silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace onecopy::os {
namespace {

void Set(int fd, int level, int option, unsigned value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

void LimitSilence(int fd, std::chrono::seconds limit) {
  const auto seconds = static_cast<unsigned>(limit.count());
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  // Before the first question, and between two: 4 and 2 of 10.
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(seconds * 2 / 5, 1U));
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 5, 1U));
  // Of both: with this set it is time that counts, and not the number of questions.
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<unsigned>(std::chrono::milliseconds(limit).count()));
}

void AwaitFirstByte(int listener) {
  Set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, static_cast<unsigned>(kSilenceLimit.count()));
}

}  // namespace onecopy::os
