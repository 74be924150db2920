#include "daemon/rpc/identity/listener.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/log/audit.h"
#include "daemon/rpc/identity/plain_peer.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/acceptor.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/newcomers.h"
#include "transport/os/sockets/silence.h"
#include "transport/os/sockets/socket_mark.h"

namespace onecopy::rpc {
namespace {

// Between two reports; what is refused meanwhile is counted.
constexpr std::chrono::seconds kReportEvery{10};
// Between two looks at which connections are read.
constexpr std::chrono::seconds kLookEvery{1};

}  // namespace

class Listener::Core {
 public:
  Core(ListenerOptions options, std::unique_ptr<Doors> doors)
      : options_(std::move(options)),
        doors_(std::move(doors)),
        thread_("accept-" + options_.name) {}
  ~Core() { Stop(); }

  Status Start() {
    Status status;
    thread_.RunSync([&] {
      if (options_.marked) Mark();
      if (options_.clients_speak_first) os::AwaitFirstByte(options_.socket.get());
      acceptor_ = std::make_unique<os::Acceptor>(
          thread_.loop(), std::move(options_.socket),
          [this](os::UniqueFd fd) { Connected(std::move(fd)); },
          [this](const Status& shortage) { Report(shortage); },
          os::Shortage{options_.kept_descriptors});
      status = acceptor_->Start();
    });
    return status;
  }

  void Stop() {
    thread_.RunSync([this] {
      acceptor_.reset();
      mark_.reset();
      thread_.loop().CancelTimer(look_);
      while (!watched_.empty()) Forget(watched_.begin()->first);
    });
    thread_.StopAndJoin();
  }

 private:
  struct Watched {
    os::UniqueFd fd;
    std::string who;
    engine::Owner payer;
    std::shared_ptr<const void> kept;
    engine::Ledger::Charge charge;
    engine::Ledger::Charge handshake;
    std::optional<os::HostPort> from;  // while its first call is awaited
    os::Newcomers::Id newcomer = 0;
    os::EventLoop::TimerId greeted = 0;
    // Since when it cannot be written to and this much has stayed unread; 0: it can.
    int unread = 0;
    os::Clock::time_point unread_since{};
  };

  // A process that asks connects to the mark, which answers it. Without a mark it finds this
  // process all the same, by a longer search.
  void Mark() {
    Result<os::UniqueFd> mark = os::MarkSocket(options_.socket.get());
    if (!mark.ok()) return;
    mark_ = std::make_unique<os::Acceptor>(
        thread_.loop(), std::move(*mark), [](const os::UniqueFd&) {}, [](const Status&) {});
    if (!mark_->Start().ok()) mark_.reset();
  }

  void Connected(os::UniqueFd fd) {
    Result<Admitted> who = options_.admit(fd.get());
    if (!who.ok()) {
      // One that is gone already is nobody's concern.
      if (who.status().reason() != reasons::kLinkDown) Refuse("nobody", who.status());
      return;
    }
    Watched connection;
    connection.who = who->who;
    connection.payer = who->payer;
    connection.kept = std::move(who->kept);
    if (Status full = TakeRoom(*who, connection); !full.ok()) return Refuse(who->who, full);
    const os::Clock::time_point now = os::Clock::now();
    const auto door = doors_->Enter(who->who, who->payer, now);
    if (!door.ok()) return Refuse(who->who, door.status());
    if (const Status status = Watch(fd, std::move(connection)); !status.ok()) {
      doors_->Leave(who->who, now);
      return Report(status);
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
    accepted.listener_fd = acceptor_->fd();
    accepted.fd = fd.Release();
    (*door)->HandleNewConnection(&accepted);
  }

  void Refuse(const std::string& who, const Status& why) {
    audit::Write({.who = who, .from = options_.name, .what = "connect", .on = {}, .why = why});
    Report(why);
  }

  Status TakeRoom(const Admitted& who, Watched& connection) {
    ONECOPY_RETURN_IF_ERROR(TakeRoom(options_.charged, who, &connection.charge));
    if (!options_.handshakes) return OkStatus();
    return TakeRoom(engine::Charged::kHandshakes, who, &connection.handshake);
  }

  // Who is still being greeted goes first.
  Status TakeRoom(engine::Charged kind, const Admitted& who, engine::Ledger::Charge* charge) {
    const auto take = [&] {
      return options_.ledger.TakeInto(*charge, kind, who.payer, who.administrator);
    };
    Status full = take();
    if (full.ok() || !newcomers_.PutOut(who.payer.ToString())) {
      if (full.ok() || !newcomers_.PutOut()) return full;
    }
    return take();
  }

  // gRPC does not say when a connection ends, so a second descriptor of it does. It holds nothing
  // open: gRPC shuts a socket down before it closes it.
  Status Watch(const os::UniqueFd& fd, Watched made) {
    made.fd = fd.Duplicate();
    if (!made.fd) return os::ErrnoStatus(errno, "watching a connection");
    const int number = made.fd.get();
    ONECOPY_RETURN_IF_ERROR(
        thread_.loop().Watch(number, EPOLLRDHUP, [this, number](uint32_t) { Forget(number); }));
    Watched& connection = watched_[number] = std::move(made);
    if (options_.greeting > std::chrono::milliseconds(0)) AwaitGreeting(number, connection);
    if (look_ == 0) LookLater();
    return OkStatus();
  }

  void AwaitGreeting(int number, Watched& connection) {
    const os::Newcomers::Id newcomer =
        newcomers_.Enter(connection.payer.ToString(), [this, number] { End(number); });
    connection.newcomer = newcomer;
    connection.greeted =
        thread_.loop().RunAfter(options_.greeting, [this, number] { Greeted(number); });
    if (!options_.handshakes) return;
    const Result<os::HostPort> from = os::PeerAddress(number);
    if (!from.ok()) return;
    connection.from = *from;
    options_.greetings->Await(*from, [this, number, newcomer] {
      // The number may be another connection's by then.
      thread_.loop().Post([this, number, newcomer] {
        const auto found = watched_.find(number);
        if (found != watched_.end() && found->second.newcomer == newcomer) Greeted(number);
      });
    });
  }

  void Greeted(int number) {
    Watched& greeted = watched_.at(number);
    thread_.loop().CancelTimer(std::exchange(greeted.greeted, 0));
    newcomers_.Leave(greeted.newcomer);
    greeted.handshake.GiveBack();
    if (greeted.from) options_.greetings->Forget(*greeted.from);
    greeted.from.reset();
  }

  void LookLater() {
    look_ = thread_.loop().RunAfter(kLookEvery, [this] {
      look_ = 0;
      EndDeaf();
      if (options_.each_second) options_.each_second();
      if (!watched_.empty()) LookLater();
    });
  }

  void EndDeaf() {
    const bool crowded = options_.crowded && options_.crowded();
    const std::chrono::milliseconds limit = crowded ? kLookEvery : options_.deaf;
    std::vector<pollfd> all;
    for (const auto& [number, connection] : watched_) all.push_back({number, POLLOUT, 0});
    if (::poll(all.data(), all.size(), 0) < 0) return;
    const os::Clock::time_point now = os::Clock::now();
    for (const pollfd& one : all) {
      Watched& connection = watched_.at(one.fd);
      int unread = 0;
      if (one.revents == 0 && ::ioctl(one.fd, SIOCOUTQ, &unread) < 0) unread = 0;
      if (unread != connection.unread) {
        connection.unread = unread;
        connection.unread_since = now;
      } else if (unread > 0 && now - connection.unread_since >= limit) {
        Report({Code::kDeadlineExceeded, reasons::kStalled,
                connection.who +
                    " does not read the answers to its requests: one of its connections " +
                    "was closed"});
        End(one.fd);
      }
    }
  }

  void End(int number) {
    ::shutdown(number, SHUT_RDWR);  // which gRPC hears of
    Forget(number);
  }

  void Forget(int number) {
    const auto node = watched_.extract(number);
    if (node.empty()) return;
    thread_.loop().Unwatch(number);
    thread_.loop().CancelTimer(node.mapped().greeted);
    newcomers_.Leave(node.mapped().newcomer);
    if (node.mapped().from) options_.greetings->Forget(*node.mapped().from);
    doors_->Leave(node.mapped().who, os::Clock::now());
  }

  void Report(const Status& status) {
    const os::Clock::time_point now = os::Clock::now();
    if (now < next_report_) {
      ++unreported_;
      return;
    }
    next_report_ = now + kReportEvery;
    std::string context = options_.name;
    if (unreported_ > 0)
      context += " (" + std::to_string(unreported_) + " more since the last report)";
    unreported_ = 0;
    if (options_.report) options_.report(status.WithContext(context));
  }

  ListenerOptions options_;
  const std::unique_ptr<Doors> doors_;
  os::LoopThread thread_;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::unique_ptr<os::Acceptor> mark_;  // empty: not marked
  std::unordered_map<int, Watched> watched_;
  os::Newcomers newcomers_;          // of those, still being greeted as far as is known
  os::EventLoop::TimerId look_ = 0;  // while there are connections
  os::Clock::time_point next_report_{};
  uint64_t unreported_ = 0;
};

Listener::Listener(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Listener::~Listener() = default;

Result<std::unique_ptr<Listener>> Listener::Start(ListenerOptions options,
                                                  std::unique_ptr<Doors> doors) {
  auto core = std::make_unique<Core>(std::move(options), std::move(doors));
  ONECOPY_RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<Listener>(new Listener(std::move(core)));
}

void Listener::Stop() { core_->Stop(); }

std::function<Result<Admitted>(int fd)> AdmitPeers(bool verify_local_uid) {
  return [verify_local_uid](int fd) -> Result<Admitted> {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    os::LimitSilence(fd);
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, os::PeerAddress(fd));
    if (verify_local_uid) {
      ONECOPY_RETURN_IF_ERROR(CheckPlainPeer(fd, address.host, "has connected as a peer"));
    }
    std::string who = os::Counted(address.host);
    return Admitted{who, engine::Stranger(who)};
  };
}

}  // namespace onecopy::rpc
