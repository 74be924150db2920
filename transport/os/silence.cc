#include "transport/os/silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace onecopy::os {
namespace {

// Before the first question, and between two.
constexpr int kQuietSeconds = 4;
constexpr int kAskEverySeconds = 2;

void Set(int fd, int level, int option, unsigned value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

void LimitSilence(int fd) {
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kQuietSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kAskEverySeconds);
  // Of both: with this set it is time that counts, and not the number of questions.
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<unsigned>(std::chrono::milliseconds(kSilenceLimit).count()));
}

void AwaitFirstByte(int listener) {
  Set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, static_cast<unsigned>(kSilenceLimit.count()));
}

}  // namespace onecopy::os
