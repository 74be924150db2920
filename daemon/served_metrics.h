// The metrics that this daemon serves, or why it does not; the daemon runs either way.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/config/config.h"
#include "daemon/engine/engine.h"
#include "daemon/metrics/server.h"
#include "onecopy/node.h"
#include "transport/core/base/mutex.h"
#include "transport/tls/trust.h"

namespace onecopy {

// Begun and ended by one thread; anybody may ask meanwhile.
class ServedMetrics {
 public:
  explicit ServedMetrics(const config::Config& config);

  // What the daemon tells of them. Any thread.
  MetricsInfo Info() const;

  // By TLS beyond loopback, which `trust` is for. Logs it where they cannot be served. Stop comes
  // before the engine goes.
  void Start(engine::Engine& engine, std::shared_ptr<tls::Trust> trust);
  void Stop() { server_.reset(); }

  // " metrics=HOST:PORT" or " metrics=none", as in the ready line; empty where they are off.
  std::string ReadyText() const;

 private:
  const std::optional<os::HostPort> listen_;
  std::unique_ptr<metrics::Server> server_;
  mutable Mutex mutex_;
  MetricsInfo info_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy
