#include "daemon/served_metrics.h"

#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy {
namespace {

constexpr const char* kRemedy =
    "set metrics_listen to a free port of this machine, or to \"off\", and restart onecopyd";

}  // namespace

ServedMetrics::ServedMetrics(const config::Config& config) : listen_(config.metrics_listen) {
  const MutexLock lock(mutex_);
  info_.viability = listen_
                        ? Viability::No(reasons::kNotYetKnown, "the daemon has not come so far yet")
                        : Viability::No(reasons::kSwitchedOff, "metrics_listen is \"off\"");
  if (listen_) info_.address = listen_->ToString();
}

MetricsInfo ServedMetrics::Info() const {
  const MutexLock lock(mutex_);
  return info_;
}

void ServedMetrics::Start(engine::Engine& engine, std::shared_ptr<tls::Trust> trust) {
  if (!listen_) return;
  if (os::IsLoopback(listen_->host)) trust = nullptr;
  const auto ask = [&engine](auto reply) { engine.ReadFigures(std::move(reply)); };
  const auto ask_status = [&engine](auto reply) { engine.ReadStatus(std::move(reply)); };
  Result<std::unique_ptr<metrics::Server>> server = metrics::Server::Start(
      {.listen = *listen_, .trust = std::move(trust), .ask = ask, .ask_status = ask_status});
  if (server.ok()) {
    server_ = *std::move(server);
    const MutexLock lock(mutex_);
    info_ = {server_->address().ToString(), {}};
    return;
  }
  const Status& why = server.status();
  log::Warning(
      "metrics are not served",
      {{"metrics_listen", listen_->ToString()}, {"why", why.ToString()}, {"try", kRemedy}});
  const MutexLock lock(mutex_);
  info_.viability = Viability::No(why.reason(), why.message(), kRemedy);
}

std::string ServedMetrics::ReadyText() const {
  if (!listen_) return {};
  return " metrics=" + (server_ == nullptr ? "none" : server_->address().ToString());
}

}  // namespace onecopy
