#include "daemon/rpc/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <unordered_map>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/os/acceptor.h"
#include "transport/os/error.h"
#include "transport/os/host_port.h"
#include "transport/os/socket_owner.h"
#include "transport/os/unix_socket.h"

namespace onecopy::rpc {
namespace {

// Between two reports; what is refused meanwhile is counted.
constexpr std::chrono::seconds kReportEvery{10};

}  // namespace

class Listener::Core {
 public:
  Core(ListenerOptions options,
       std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server)
      : options_(std::move(options)),
        server_(std::move(server)),
        thread_("accept-" + options_.name) {}
  ~Core() { Stop(); }

  Status Start() {
    Status status;
    thread_.RunSync([&] {
      acceptor_ = std::make_unique<os::Acceptor>(
          thread_.loop(), std::move(options_.socket),
          [this](os::UniqueFd fd) { Connected(std::move(fd)); },
          [this](const Status& shortage) { Report(shortage); });
      status = acceptor_->Start();
    });
    return status;
  }

  void Stop() {
    thread_.RunSync([this] {
      acceptor_.reset();
      while (!watched_.empty()) Forget(watched_.begin()->first);
    });
    thread_.StopAndJoin();
  }

 private:
  struct Watched {
    os::UniqueFd fd;
    std::string who;
  };

  void Connected(os::UniqueFd fd) {
    Result<std::string> who = options_.admit(fd.get());
    if (!who.ok()) {
      if (who.status().reason() != reasons::kLinkDown) Report(who.status());
      return;  // one that is gone already is nobody's concern
    }
    const bool too_many = watched_.size() >= options_.most;
    const auto count = count_.find(*who);
    if (too_many || (count != count_.end() && count->second >= options_.most_each)) {
      return Report({Code::kResourceExhausted, reasons::kQuota,
                     (too_many ? std::string("all together") : *who) + " may have no more than " +
                         std::to_string(too_many ? options_.most : options_.most_each) +
                         " connections"});
    }
    if (const Status status = Watch(fd, std::move(*who)); !status.ok()) return Report(status);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = acceptor_->fd();
    connection.fd = fd.Release();
    server_->HandleNewConnection(&connection);
  }

  // gRPC does not say when a connection ends, so a second descriptor of it does. It holds nothing
  // open: gRPC shuts a socket down before it closes it.
  Status Watch(const os::UniqueFd& fd, std::string who) {
    os::UniqueFd copy = fd.Duplicate();
    if (!copy) return os::ErrnoStatus(errno, "watching a connection");
    const int number = copy.get();
    ONECOPY_RETURN_IF_ERROR(
        thread_.loop().Watch(number, EPOLLRDHUP, [this, number](uint32_t) { Forget(number); }));
    ++count_[who];
    watched_.emplace(number, Watched{std::move(copy), std::move(who)});
    return OkStatus();
  }

  void Forget(int number) {
    const auto node = watched_.extract(number);
    if (node.empty()) return;
    thread_.loop().Unwatch(number);
    const auto count = count_.find(node.mapped().who);
    if (--count->second == 0) count_.erase(count);
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
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  os::LoopThread thread_;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::unordered_map<int, Watched> watched_;
  std::map<std::string, size_t> count_;
  os::Clock::time_point next_report_{};
  uint64_t unreported_ = 0;
};

Listener::Listener(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Listener::~Listener() = default;

Result<std::unique_ptr<Listener>> Listener::Start(
    ListenerOptions options,
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server) {
  auto core = std::make_unique<Core>(std::move(options), std::move(server));
  ONECOPY_RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<Listener>(new Listener(std::move(core)));
}

void Listener::Stop() { core_->Stop(); }

Result<std::string> AdmitUid(int fd) {
  ONECOPY_ASSIGN_OR_RETURN(const os::PeerProcess peer, os::UnixPeer(fd));
  return "uid " + std::to_string(peer.uid);
}

std::function<Result<std::string>(int fd)> AdmitPeers(bool verify_local_uid) {
  return [verify_local_uid, own = ::geteuid()](int fd) -> Result<std::string> {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, os::PeerAddress(fd));
    if (!verify_local_uid) return address.host;
    const Result<std::optional<uint32_t>> found = os::FarSocketUid(fd);
    if (!found.ok()) {
      return Status(found.status().code(), found.status().reason(),
                    "cannot tell who connects without TLS: " + found.status().message(),
                    "let this daemon open AF_NETLINK sockets, or configure [tls]");
    }
    const std::optional<uint32_t> uid = *found;
    const bool local = uid.has_value() || os::IsLoopback(address.host);
    if (local && uid != own && uid != 0U) {
      return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                    (uid ? "uid " + std::to_string(*uid) : std::string("somebody")) +
                        " of this machine has connected as a peer; without TLS only root and uid " +
                        std::to_string(own) + " may",
                    "run the daemons of one machine as one user, or configure [tls]");
    }
    return address.host;
  };
}

}  // namespace onecopy::rpc
