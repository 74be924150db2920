// Serves the metrics by HTTP: prometheus-cpp's Exposer, whose threads are its own.
#pragma once

#include <chrono>
#include <memory>

#include "daemon/metrics/engine_figures.h"
#include "onecopy/result.h"
#include "transport/os/host_port.h"

namespace onecopy::metrics {

struct Options {
  os::HostPort listen;  // an IPv4 address of this machine's loopback; port 0: any free one
  EngineFigures::Ask ask;
  // For the engine's answer: a scrape that gets none has what the process knows without it.
  std::chrono::milliseconds patience{1000};
};

// Four connections are served at a time; up to 16 wait; one that sends or takes nothing for two
// seconds is closed. Between scrapes its threads sleep.
class Server {
 public:
  // UNAVAILABLE where the address cannot be had, RESOURCE_EXHAUSTED where threads cannot.
  static Result<std::unique_ptr<Server>> Start(Options options);
  // Waits for scrapes under way. Before the engine goes.
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
