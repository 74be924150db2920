#include "daemon/rpc/plain_dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/rpc/plain_peer.h"
#include "onecopy/reasons.h"
#include "transport/os/resolve.h"

namespace onecopy::rpc {
namespace {

constexpr std::chrono::seconds kLimit{3};

// A server with TLS says nothing before the client does, which waits for it here.
Status Silent(bool connected) {
  const std::string limit = "no answer within " + std::to_string(kLimit.count()) + " s";
  if (!connected) return {Code::kDeadlineExceeded, reasons::kPeerDown, limit};
  return {Code::kDeadlineExceeded, reasons::kPeerDown,
          limit + ", though it accepts connections: a node with [tls] does not answer one without",
          "set [tls] on both nodes, or on neither"};
}

}  // namespace

// Thread `dial` only, but for what Resolve says.
class PlainDialer::Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(os::EventLoop& loop, os::HostPort where, Done done)
      : loop_(loop), where_(std::move(where)), done_(std::move(done)) {}

  void Start(const std::shared_ptr<os::LoopThread>& thread) {
    timer_ = loop_.RunAfter(
        kLimit, [self = shared_from_this()] { self->Finish(Silent(self->connected_)); });
    // Names may take long to look up, and that cannot be ended: on a thread that nobody waits for.
    if (os::IsAddress(where_.host)) return Resolved({where_});
    std::thread([self = shared_from_this(), thread] {
      auto found = os::Resolve(self->where_);
      thread->loop().Post([self, found = std::move(found)] {
        if (!found.ok()) return self->Finish(found.status());
        self->Resolved(*found);
      });
    }).detach();
  }

 private:
  void Resolved(std::vector<os::HostPort> addresses) {
    addresses_ = std::move(addresses);
    Next(Status(Code::kUnavailable, reasons::kPeerDown, "its name has no address"));
  }

  // Tries the next address; `why` is what became of the last.
  void Next(const Status& why) {
    if (!done_) return;
    Drop();
    if (next_ == addresses_.size()) return Finish(why);
    Result<os::UniqueFd> fd = os::ConnectTcp(addresses_[next_++]);
    if (!fd.ok()) return Next(fd.status());
    fd_ = std::move(*fd);
    connected_ = false;
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const Status watching = loop_.Watch(fd_.get(), EPOLLOUT,
                                        [self = shared_from_this()](uint32_t) { self->OnEvent(); });
    if (!watching.ok()) Finish(watching);
  }

  void OnEvent() {
    if (!connected_) {
      if (const Status status = os::ConnectError(fd_.get()); !status.ok()) return Next(status);
      connected_ = true;
      // A server speaks first. Until somebody has taken the connection it is nobody's.
      return loop_.Rewatch(fd_.get(), EPOLLIN | EPOLLRDHUP);
    }
    char first = 0;
    const ssize_t got = ::recv(fd_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      return Next({Code::kUnavailable, reasons::kPeerDown, "it closed the connection at once"});
    }
    const std::string who = addresses_[next_ - 1].ToString();
    const Status known =
        CheckPlainPeer(fd_.get(), addresses_[next_ - 1].host, "answers at " + who + " as a peer");
    if (!known.ok()) return Finish(known);
    loop_.Unwatch(fd_.get());
    Finish(std::move(fd_));
  }

  void Drop() {
    if (fd_) loop_.Unwatch(fd_.get());
    fd_.Reset();
  }

  void Finish(Result<os::UniqueFd> outcome) {
    if (!done_) return;
    loop_.CancelTimer(timer_);
    Drop();
    std::exchange(done_, nullptr)(std::move(outcome));
  }

  os::EventLoop& loop_;
  const os::HostPort where_;
  Done done_;
  os::EventLoop::TimerId timer_ = 0;
  std::vector<os::HostPort> addresses_;
  size_t next_ = 0;
  os::UniqueFd fd_;
  bool connected_ = false;
};

PlainDialer::PlainDialer() : thread_(std::make_shared<os::LoopThread>("dial")) {}
PlainDialer::~PlainDialer() { thread_->StopAndJoin(); }

void PlainDialer::Dial(const std::string& address, Done done) {
  Result<os::HostPort> where = os::ParseHostPort(address);
  thread_->loop().Post([thread = thread_, where = std::move(where),
                        done = std::move(done)]() mutable {
    if (!where.ok()) return done(where.status());
    std::make_shared<Attempt>(thread->loop(), std::move(*where), std::move(done))->Start(thread);
  });
}

}  // namespace onecopy::rpc
