// Serves the metrics and the status page by HTTP, on a thread of its own (Boost.Beast).
#pragma once

#include <chrono>
#include <memory>

#include "daemon/metrics/scrapes.h"
#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"
#include "transport/tls/trust.h"

namespace onecopy::metrics {

struct Options {
  os::HostPort listen;  // port 0: any free one
  // With it, HTTPS with this node's certificate, to clients that show one of its authorities';
  // null: plain HTTP.
  std::shared_ptr<tls::Trust> trust;
  Scrapes::Ask ask;         // for the metrics
  Scrapes::Ask ask_status;  // likewise, with Figures::status
  // For the engine's answer: a scrape that gets none has what the process knows without it.
  std::chrono::milliseconds patience{1000};
};

// At most 32 connections are served at a time, and more wait in the system's queue. Each has two
// seconds for its handshake and request, which are at most 8 KiB, and five to take its answer; then
// it is closed. Connections never wait for each other. Between scrapes the thread sleeps.
class Server {
 public:
  // UNAVAILABLE where the address cannot be had, RESOURCE_EXHAUSTED where a thread cannot.
  static Result<std::unique_ptr<Server>> Start(Options options);
  // Closes what is open. Before the engine goes.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const os::HostPort& address() const { return address_; }

 private:
  struct Parts;

  Server(std::unique_ptr<Parts> parts, os::HostPort address);

  const std::unique_ptr<Parts> parts_;
  const os::HostPort address_;
};

}  // namespace onecopy::metrics
