#include "daemon/rpc/outgoing/plain_dialer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/rpc/identity/plain_peer.h"
#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

// For a name to be found, and for each of its addresses to answer.
constexpr std::chrono::seconds kLimit{3};
// After that the next address is tried, too: a silent one keeps none of the others waiting.
constexpr std::chrono::milliseconds kHeadStart{250};
constexpr size_t kMostAddresses = 16;

// A server with TLS says nothing before the client does, which waits for it here.
Status Silent(bool connected) {
  const std::string limit = "no answer within " + std::to_string(kLimit.count()) + " s";
  if (!connected) return {Code::kDeadlineExceeded, reasons::kPeerDown, limit};
  return {Code::kDeadlineExceeded, reasons::kPeerDown,
          limit + ", though it accepts connections: a node with [tls] does not answer one without",
          "set [tls] on both nodes, or on neither"};
}

}  // namespace

// Thread `dial` only; another one resolves names.
class PlainDialer::Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(os::EventLoop& loop, std::vector<os::HostPort> where, Done done)
      : loop_(loop), where_(std::move(where)), done_(std::move(done)) {}

  void Start(const std::shared_ptr<os::LoopThread>& thread, Resolver resolve) {
    if (where_.size() > 1 || os::IsAddress(where_.front().host)) return Resolved(where_);
    timer_ = loop_.RunAfter(kLimit, [self = shared_from_this()] { self->Finish(Silent(false)); });
    // Looking up a name may take long and cannot be ended: on a thread of its own, never joined.
    std::thread([self = shared_from_this(), thread, resolve] {
      auto found = resolve(self->where_.front());
      thread->loop().Post([self, found = std::move(found)] {
        if (!self->done_) return;
        self->loop_.CancelTimer(self->timer_);
        if (!found.ok()) return self->Finish(found.status());
        self->Resolved(*found);
      });
    }).detach();
  }

 private:
  // One address.
  struct Try {
    os::HostPort address;
    os::UniqueFd fd;
    bool connected = false;
    os::EventLoop::TimerId limit = 0;
  };
  using Tries = std::list<Try>;

  void Resolved(std::vector<os::HostPort> addresses) {
    addresses_ = std::move(addresses);
    if (addresses_.size() > kMostAddresses) addresses_.resize(kMostAddresses);
    if (addresses_.empty()) {
      return Finish(Status(Code::kUnavailable, reasons::kPeerDown, "its name has no address"));
    }
    Next();
  }

  // Begins with the next address, beside those that have not answered yet.
  void Next() {
    loop_.CancelTimer(std::exchange(timer_, 0));
    const auto one = tries_.emplace(tries_.end());
    one->address = addresses_[next_++];
    if (next_ < addresses_.size()) {
      timer_ = loop_.RunAfter(kHeadStart, [self = shared_from_this()] {
        self->timer_ = 0;
        self->Next();
      });
    }
    one->limit = loop_.RunAfter(kLimit, [self = shared_from_this(), one] {
      one->limit = 0;
      self->Failed(one, Silent(one->connected));
    });
    Result<os::UniqueFd> fd = os::ConnectTcp(one->address);
    if (!fd.ok()) return Failed(one, fd.status());
    one->fd = std::move(*fd);
    const int on = 1;
    ::setsockopt(one->fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const Status watching =
        loop_.Watch(one->fd.get(), EPOLLOUT,
                    [self = shared_from_this(), one](uint32_t) { self->OnEvent(one); });
    if (!watching.ok()) Failed(one, watching);
  }

  void OnEvent(Tries::iterator one) {
    if (!one->connected) {
      const Status status = os::ConnectError(one->fd.get());
      if (!status.ok()) return Failed(one, status);
      one->connected = true;
      // A server speaks first. Until somebody has taken the connection it is nobody's.
      return loop_.Rewatch(one->fd.get(), EPOLLIN | EPOLLRDHUP);
    }
    char first = 0;
    const ssize_t got = ::recv(one->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      return Failed(
          one, {Code::kUnavailable, reasons::kPeerDown, "it has closed the connection at once"});
    }
    const Status known = CheckPlainPeer(one->fd.get(), one->address.host,
                                        "answers at " + one->address.ToString() + " as a peer");
    if (!known.ok()) return Finish(known);
    loop_.Unwatch(one->fd.get());
    Finish(std::move(one->fd));
  }

  // The last one's failure is the attempt's.
  void Failed(Tries::iterator one, const Status& why) {
    const auto self = shared_from_this();  // what is dropped may be the last to hold it
    Drop(one);
    if (next_ < addresses_.size()) return Next();
    if (tries_.empty()) Finish(why);
  }

  void Drop(Tries::iterator one) {
    loop_.CancelTimer(one->limit);
    if (one->fd) loop_.Unwatch(one->fd.get());
    tries_.erase(one);
  }

  void Finish(Result<os::UniqueFd> outcome) {
    if (!done_) return;
    const auto self = shared_from_this();
    loop_.CancelTimer(std::exchange(timer_, 0));
    while (!tries_.empty()) Drop(tries_.begin());
    std::exchange(done_, nullptr)(std::move(outcome));
  }

  os::EventLoop& loop_;
  const std::vector<os::HostPort> where_;  // one name, or addresses
  Done done_;
  os::EventLoop::TimerId timer_ = 0;  // of the name, then of the next address
  std::vector<os::HostPort> addresses_;
  size_t next_ = 0;
  Tries tries_;  // under way
};

PlainDialer::PlainDialer(Resolver resolve)
    : resolve_(resolve), thread_(std::make_shared<os::LoopThread>("dial")) {}
PlainDialer::~PlainDialer() { thread_->StopAndJoin(); }

void PlainDialer::Dial(const std::string& addresses, Done done) {
  auto where = os::ParseHostPorts(addresses);
  thread_->loop().Post([thread = thread_, resolve = resolve_, where = std::move(where),
                        done = std::move(done)]() mutable {
    if (!where.ok()) return done(where.status());
    std::make_shared<Attempt>(thread->loop(), std::move(*where), std::move(done))
        ->Start(thread, resolve);
  });
}

}  // namespace onecopy::rpc
