#include "transport/os/sockets/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr std::chrono::milliseconds kPause{100};
constexpr int kPerTurn = 64;  // so that a flood of connections does not starve the loop

UniqueFd OpenSpare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// How many descriptors this process may have; a new one has the lowest number that is free.
uint64_t MostDescriptors() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

Status ShortOf(uint64_t most) {
  return {Code::kResourceExhausted, reasons::kQuota,
          "this process has nearly all of the " + std::to_string(most) +
              " descriptors open that it may have, and keeps the rest for its present clients",
          "raise the limit on open files (LimitNOFILE=, ulimit -n), or end some of its clients"};
}

}  // namespace

Acceptor::Acceptor(EventLoop& loop, UniqueFd listener, std::function<void(UniqueFd)> connected,
                   std::function<void(const Status&)> failed, Shortage shortage)
    : loop_(loop),
      listener_(std::move(listener)),
      connected_(std::move(connected)),
      failed_(std::move(failed)),
      shortage_(std::move(shortage)),
      spare_(OpenSpare()) {}

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
      Take(std::move(fd));
      continue;
    }
    int error = errno;
    if (error == EMFILE || error == ENFILE) error = TurnAwayBySpare();
    if (error == 0) continue;
    if (error == EAGAIN) return;
    if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      Report(ErrnoStatus(error, "accepting a connection",
                         "raise the limit on open files (LimitNOFILE=, ulimit -n)"));
      return Pause();
    }
    // Anything else concerns that one connection, which is gone.
  }
}

void Acceptor::Take(UniqueFd fd) {
  const uint64_t most = MostDescriptors();
  if (static_cast<uint64_t>(fd.get()) >= most - std::min(shortage_.keep, most / 4))
    return TurnAway(std::move(fd));
  failing_ = false;
  if (!spare_) spare_ = OpenSpare();
  connected_(std::move(fd));
}

void Acceptor::TurnAway(UniqueFd fd) {
  const Status why = ShortOf(MostDescriptors());
  Report(why);
  if (shortage_.turned_away) shortage_.turned_away(std::move(fd), why);
}

int Acceptor::TurnAwayBySpare() {
  if (!spare_) spare_ = OpenSpare();
  if (!spare_) return EMFILE;
  spare_.Reset();
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int error = fd ? 0 : errno;
  if (fd) TurnAway(std::move(fd));
  // Its descriptor is the spare one again, unless it is closed elsewhere or another thread is
  // quicker.
  spare_ = OpenSpare();
  return error;
}

void Acceptor::Report(const Status& shortage) {
  if (!std::exchange(failing_, true)) failed_(shortage);
}

void Acceptor::Pause() {
  loop_.Unwatch(listener_.get());
  resume_ = loop_.RunAfter(kPause, [this] {
    if (!Start().ok()) Pause();  // the same shortage
  });
}

}  // namespace onecopy::os
