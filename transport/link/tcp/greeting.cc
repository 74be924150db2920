#include "transport/link/tcp/greeting.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/silence.h"

namespace onecopy::tcp {
namespace {

constexpr std::chrono::seconds kLimit{5};

// One header on a socket that has just connected: its buffer is empty and so takes it whole.
Status Send(LaneSocket& socket, const FrameHeader& header) {
  HeaderBytes bytes = Encode(header);
  iovec whole{bytes.data(), bytes.size()};
  const ssize_t sent = socket.Send(&whole, 1, false);
  if (sent == static_cast<ssize_t>(bytes.size())) return OkStatus();
  return os::ErrnoStatus(sent < 0 ? errno : EAGAIN, "greeting on a tcp lane");
}

}  // namespace

Greeting::Greeting(os::EventLoop& loop, LaneSocket socket, Stage stage, Done done)
    : loop_(loop), socket_(std::move(socket)), done_(std::move(done)), stage_(stage) {}

std::weak_ptr<Greeting> Greeting::Await(os::EventLoop& loop, LaneSocket socket,
                                        const Encryption& encryption, Done done) {
  const Stage first = encryption.possible() ? Stage::kFirstByte : Stage::kHeader;
  const std::shared_ptr<Greeting> greeting(
      new Greeting(loop, std::move(socket), first, std::move(done)));
  greeting->encryption_ = encryption;
  greeting->Start(EPOLLIN);
  return greeting;
}

void Greeting::Offer(os::EventLoop& loop, const os::HostPort& where, const FrameHeader& hello,
                     std::optional<Secure> secure, Done done) {
  Result<os::UniqueFd> fd = os::ConnectTcp(where);
  const std::shared_ptr<Greeting> greeting(
      new Greeting(loop, LaneSocket(fd.ok() ? std::move(*fd) : os::UniqueFd()), Stage::kConnecting,
                   std::move(done)));
  greeting->hello_ = hello;
  if (secure) {
    greeting->encryption_ = std::move(secure->encryption);
    greeting->peer_ = std::move(secure->peer);
  }
  if (fd.ok()) return greeting->Start(EPOLLOUT);
  loop.Post([greeting, status = fd.status()] { greeting->Finish(status); });
}

void Greeting::Start(uint32_t events) {
  const int on = 1;
  ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  os::LimitSilence(socket_.fd());
  timer_ = loop_.RunAfter(kLimit, [self = shared_from_this()] {
    self->Finish(Status(Code::kUnavailable, reasons::kLinkDown,
                        "the other end sent no greeting on a new tcp lane in time"));
  });
  Status watching = loop_.Watch(socket_.fd(), events,
                                [self = shared_from_this()](uint32_t) { self->OnEvents(); });
  if (!watching.ok()) {
    loop_.Post([self = shared_from_this(), watching] { self->Finish(watching); });
  }
}

void Greeting::OnEvents() {
  switch (stage_) {
    case Stage::kConnecting:
      return Connected();
    case Stage::kFirstByte:
      return LookAtFirstByte();
    case Stage::kShaking:
      return Shake();
    case Stage::kHeader:
      return ReceiveHeader();
  }
}

void Greeting::Connected() {
  if (const Status connected = os::ConnectError(socket_.fd()); !connected.ok()) {
    return Finish(connected);
  }
  if (encryption_.possible()) return BeginHandshake(tls::Side::kClient);
  SendHello();
}

// What begins a handshake begins no header, and the other way round.
void Greeting::LookAtFirstByte() {
  constexpr char kHandshakeRecord = 22;
  char first = 0;
  const ssize_t got = ::recv(socket_.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == 1 && first == kHandshakeRecord) return BeginHandshake(tls::Side::kServer);
  stage_ = Stage::kHeader;
  ReceiveHeader();
}

void Greeting::BeginHandshake(tls::Side side) {
  identity_ = encryption_.trust->Now().identity;
  auto begun = tls::Handshake::Begin(*identity_, side, socket_.fd());
  if (!begun.ok()) return Finish(begun.status());
  handshake_ = std::move(*begun);
  stage_ = Stage::kShaking;
  Shake();
}

void Greeting::Shake() {
  const Result<tls::Handshake::Next> next = handshake_->Step();
  if (!next.ok()) return Finish(next.status());
  if (*next != tls::Handshake::Next::kDone) {
    loop_.Rewatch(socket_.fd(), *next == tls::Handshake::Next::kRead ? EPOLLIN : EPOLLOUT);
    return;
  }
  if (const Status shaken = Shaken(); !shaken.ok()) return Finish(shaken);
  handshake_.reset();
  if (hello_) return SendHello();
  stage_ = Stage::kHeader;
  loop_.Rewatch(socket_.fd(), EPOLLIN);
}

Status Greeting::Shaken() {
  tls::Chain presented = handshake_->presented();
  if (!peer_.empty()) {
    ONECOPY_RETURN_IF_ERROR(identity_->Verify(presented, peer_, tls::Side::kServer));
  }
  ONECOPY_ASSIGN_OR_RETURN(const tls::SessionKeys keys, handshake_->keys());
  return socket_.Encrypt(keys, encryption_.by_kernel, std::move(presented));
}

void Greeting::SendHello() {
  if (const Status sent = Send(socket_, *hello_); !sent.ok()) return Finish(sent);
  hello_.reset();
  stage_ = Stage::kHeader;
  loop_.Rewatch(socket_.fd(), EPOLLIN);
}

void Greeting::ReceiveHeader() {
  iovec room{header_.data() + have_, kHeaderBytes - have_};
  const ssize_t got = socket_.Receive(&room, 1);
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
                         "the other end does not speak the protocol of onecopy's tcp lanes"));
  }
  Finish(*header);
}

void Greeting::Finish(Result<FrameHeader> outcome) {
  if (!done_) return;
  loop_.CancelTimer(timer_);
  if (socket_) loop_.Unwatch(socket_.fd());
  Done done = std::move(done_);
  done_ = nullptr;
  done(std::move(outcome), std::move(socket_));
}

}  // namespace onecopy::tcp
