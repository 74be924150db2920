#include "daemon/metrics/server.h"

#include <openssl/ssl.h>
#include <pthread.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/metrics/connection.h"
#include "onecopy/reasons.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::metrics {
namespace {

namespace asio = boost::asio;
using tcp = boost::asio::ip::tcp;

constexpr size_t kMaxConnections = 32;
constexpr int kBacklog = 32;
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

// Everything but the thread's beginning and end is on the thread.
struct Server::Parts {
  explicit Parts(Options options)
      : trust(std::move(options.trust)),
        shared{scrapes, statuses, counts, [this] { Closed(); }},
        scrapes(io, std::move(options.ask), options.patience),
        status_scrapes(io, std::move(options.ask_status), options.patience),
        statuses(status_scrapes),
        acceptor(io),
        pause(io) {}

  Status Listen(const os::HostPort& where) {
    ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd socket, os::ListenTcp(where, kBacklog));
    ONECOPY_ASSIGN_OR_RETURN(address, os::LocalAddress(socket.get()));
    const bool v6 = address.host.find(':') != std::string::npos;
    boost::system::error_code failed;
    acceptor.assign(v6 ? tcp::v6() : tcp::v4(), socket.get(), failed);
    if (failed) {
      return {Code::kInternal, reasons::kInternal,
              "cannot listen for metrics: " + failed.message()};
    }
    socket.Release();
    return OkStatus();
  }

  void Accept() {
    if (open >= kMaxConnections) {
      full = true;
      return;
    }
    acceptor.async_accept([this](const boost::system::error_code& failed, tcp::socket socket) {
      if (failed == asio::error::operation_aborted) return;
      if (!failed) {
        Serve(std::move(socket));
        return Accept();
      }
      // The process has no descriptor left, or the like: it may have one soon.
      pause.expires_after(kAcceptPause);
      pause.async_wait([this](const boost::system::error_code& cancelled) {
        if (!cancelled) Accept();
      });
    });
  }

  void Serve(tcp::socket socket) {
    ++open;
    if (trust == nullptr) {
      return std::make_shared<Connection<PlainStream>>(PlainStream(std::move(socket)), shared)
          ->Begin();
    }
    // Of the identity that counts now; the stream keeps what it needs of the context.
    SSL_CTX* const now = trust->Now().identity->server_context();
    SSL_CTX_up_ref(now);
    asio::ssl::context context(now);  // takes that reference
    std::make_shared<Connection<TlsStream>>(TlsStream(std::move(socket), context), shared)->Begin();
  }

  void Closed() {
    --open;
    if (std::exchange(full, false) && !ending) Accept();
  }

  const std::shared_ptr<tls::Trust> trust;
  os::HostPort address;
  size_t open = 0;
  bool full = false;  // nothing is accepted until one closes
  bool ending = false;
  ScrapeCounts counts;
  Shared shared;           // outlives the connections, which `scrapes` and `io` hold
  asio::io_context io{1};  // of one thread
  Scrapes scrapes;
  Scrapes status_scrapes;
  Statuses statuses;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::thread thread;
};

Result<std::unique_ptr<Server>> Server::Start(Options options) {
  const os::HostPort where = options.listen;
  auto parts = std::make_unique<Parts>(std::move(options));
  ONECOPY_RETURN_IF_ERROR(parts->Listen(where));
  try {
    parts->thread = std::thread([parts = parts.get()] {
      ::pthread_setname_np(::pthread_self(), "metrics");
      parts->Accept();
      const auto work = asio::make_work_guard(parts->io);
      parts->io.run();
    });
  } catch (const std::system_error& failure) {
    return Status(Code::kResourceExhausted, reasons::kInternal,
                  "cannot serve metrics at " + where.ToString() + ": " + failure.what());
  }
  os::HostPort address = parts->address;
  return std::unique_ptr<Server>(new Server(std::move(parts), std::move(address)));
}

Server::Server(std::unique_ptr<Parts> parts, os::HostPort address)
    : parts_(std::move(parts)), address_(std::move(address)) {}

Server::~Server() {
  parts_->io.stop();
  parts_->thread.join();
  parts_->ending = true;
}

}  // namespace onecopy::metrics
