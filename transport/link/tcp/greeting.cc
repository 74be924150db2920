#include "transport/link/tcp/greeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "transport/core/reasons.h"
#include "transport/os/error.h"

namespace onecopy::tcp {
namespace {

constexpr std::chrono::seconds kLimit{5};

// One header on a socket that has just connected: its buffer is empty and so takes it whole.
Status Send(int fd, const FrameHeader& header) {
  const HeaderBytes bytes = Encode(header);
  const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return OkStatus();
  return os::ErrnoStatus(sent < 0 ? errno : EAGAIN, "greeting on a tcp lane");
}

}  // namespace

Greeting::Greeting(os::EventLoop& loop, os::UniqueFd fd, Done done)
    : loop_(loop), fd_(std::move(fd)), done_(std::move(done)) {}

void Greeting::Await(os::EventLoop& loop, os::UniqueFd fd, Done done) {
  const std::shared_ptr<Greeting> greeting(new Greeting(loop, std::move(fd), std::move(done)));
  greeting->Start(EPOLLIN);
}

void Greeting::Offer(os::EventLoop& loop, const os::HostPort& where, const FrameHeader& hello,
                     Done done) {
  Result<os::UniqueFd> fd = os::ConnectTcp(where);
  const std::shared_ptr<Greeting> greeting(
      new Greeting(loop, fd.ok() ? std::move(*fd) : os::UniqueFd(), std::move(done)));
  greeting->hello_ = hello;
  if (fd.ok()) return greeting->Start(EPOLLOUT);
  loop.Post([greeting, status = fd.status()] { greeting->Finish(status); });
}

void Greeting::Start(uint32_t events) {
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  timer_ = loop_.RunAfter(kLimit, [self = shared_from_this()] {
    self->Finish(
        Status(Code::kUnavailable, reasons::kLinkDown, "a tcp lane was not greeted in time"));
  });
  Status watching =
      loop_.Watch(fd_.get(), events, [self = shared_from_this()](uint32_t) { self->OnEvents(); });
  if (!watching.ok()) {
    loop_.Post([self = shared_from_this(), watching] { self->Finish(watching); });
  }
}

void Greeting::OnEvents() {
  if (hello_) {
    Status connected = os::ConnectError(fd_.get());
    if (connected.ok()) connected = Send(fd_.get(), *hello_);
    if (!connected.ok()) return Finish(connected);
    hello_.reset();
    loop_.Rewatch(fd_.get(), EPOLLIN);
    return;
  }
  const ssize_t got = ::recv(fd_.get(), header_.data() + have_, kHeaderBytes - have_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    return Finish(
        Status(Code::kUnavailable, reasons::kLinkDown, "the peer closed a tcp lane at its start"));
  }
  have_ += static_cast<size_t>(got);
  if (have_ < kHeaderBytes) return;
  const std::optional<FrameHeader> header = Decode(header_);
  if (!header) {
    return Finish(Status(Code::kInvalidArgument, reasons::kBadArgument,
                         "what was sent is no tcp lane's greeting"));
  }
  Finish(*header);
}

void Greeting::Finish(Result<FrameHeader> outcome) {
  if (!done_) return;
  loop_.CancelTimer(timer_);
  if (fd_) loop_.Unwatch(fd_.get());
  Done done = std::move(done_);
  done_ = nullptr;
  done(std::move(outcome), std::move(fd_));
}

}  // namespace onecopy::tcp
