#include "transport/os/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "transport/os/error.h"

namespace onecopy::os {
namespace {

constexpr std::chrono::milliseconds kPause{100};
constexpr int kPerTurn = 64;  // so that a flood of connections does not starve the loop

}  // namespace

Acceptor::Acceptor(EventLoop& loop, UniqueFd listener, std::function<void(UniqueFd)> connected,
                   std::function<void(const Status&)> failed)
    : loop_(loop),
      listener_(std::move(listener)),
      connected_(std::move(connected)),
      failed_(std::move(failed)) {}

Acceptor::~Acceptor() {
  loop_.CancelTimer(resume_);
  loop_.Unwatch(listener_.get());
}

Status Acceptor::Start() {
  return loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
}

void Acceptor::Accept() {
  for (int i = 0; i < kPerTurn; ++i) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      failing_ = false;
      connected_(std::move(fd));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN) return;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      if (!std::exchange(failing_, true)) {
        failed_(ErrnoStatus(error, "accepting a connection",
                            "raise the limit on open files (LimitNOFILE=, ulimit -n)"));
      }
      return Pause();
    }
    // Anything else concerns that one connection, which is gone.
  }
}

void Acceptor::Pause() {
  loop_.Unwatch(listener_.get());
  resume_ = loop_.RunAfter(kPause, [this] {
    if (!Start().ok()) Pause();  // the same shortage
  });
}

}  // namespace onecopy::os
