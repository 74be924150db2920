#include "daemon/metrics/server.h"

#include <civetweb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <CivetServer.h>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "daemon/log/audit.h"
#include "daemon/log/log.h"
#include "daemon/metrics/families.h"
#include "onecopy/reasons.h"

namespace onecopy::metrics {
namespace {

constexpr const char* kPath = "/metrics";
constexpr const char* kPage =
    "onecopyd serves its metrics at /metrics, in Prometheus' text format.\n";

// What the library asks at each scrape, on a thread of its own.
class Source final : public prometheus::Collectable {
 public:
  Source(EngineFigures::Ask ask, std::chrono::milliseconds patience)
      : engine_(std::move(ask)), patience_(patience) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::shared_ptr<const engine::Figures> figures = engine_.Get(patience_);
    std::vector<prometheus::MetricFamily> all =
        FamiliesOf(ProcessFigures{figures != nullptr, log::Dropped(), audit::Dropped()});
    if (figures == nullptr) return all;
    for (prometheus::MetricFamily& family : FamiliesOf(*figures)) {
      all.push_back(std::move(family));
    }
    return all;
  }

 private:
  const EngineFigures engine_;
  const std::chrono::milliseconds patience_;
};

// There are two pages, and nothing is written. Anything else ends here: the library would look for
// files.
int AnswerOthers(mg_connection* connection) {
  const mg_request_info* const asked = mg_get_request_info(connection);
  if (std::strcmp(asked->request_method, "GET") != 0) {
    return mg_send_http_error(connection, 405, "%s", "only GET is served"), 405;
  }
  const std::string path = asked->local_uri == nullptr ? "" : asked->local_uri;
  if (path == kPath) return 0;  // the library's own
  if (path != "/") return mg_send_http_error(connection, 404, "%s", "see /metrics"), 404;
  const size_t bytes = std::strlen(kPage);
  mg_send_http_ok(connection, "text/plain; charset=utf-8", static_cast<long long>(bytes));
  mg_write(connection, kPage, bytes);
  return 200;
}

int Log(const mg_connection*, const char* message) {
  log::Debug("the metrics' HTTP server", {{"says", message}});
  return 1;
}

std::vector<std::string> HttpOptions(const os::HostPort& listen) {
  return {"listening_ports",    listen.ToString(),  //
          "num_threads",        "4",                //
          "connection_queue",   "16",               //
          "request_timeout_ms", "2000",             // of reading, and of writing
          "max_request_size",   "4096",             //
          "enable_keep_alive",  "no"};
}

}  // namespace

struct Server::Parts {
  CivetCallbacks callbacks;
  std::shared_ptr<Source> source;
  std::unique_ptr<prometheus::Exposer> exposer;  // ends first
};

Result<std::unique_ptr<Server>> Server::Start(Options options) {
  auto parts = std::make_unique<Parts>();
  parts->callbacks.begin_request = AnswerOthers;
  parts->callbacks.log_message = Log;
  parts->source = std::make_shared<Source>(std::move(options.ask), options.patience);
  // The library takes addresses alone, and no IPv6 as Debian builds it.
  if (options.listen.host == "localhost") options.listen.host = "127.0.0.1";
  // It says by an exception that it cannot listen, and not why: so this finds out first.
  ONECOPY_RETURN_IF_ERROR(os::ListenTcp(options.listen, 1).status());
  try {
    parts->exposer =
        std::make_unique<prometheus::Exposer>(HttpOptions(options.listen), &parts->callbacks);
    parts->exposer->RegisterCollectable(parts->source, kPath);
    const std::vector<int> ports = parts->exposer->GetListeningPorts();
    os::HostPort address = options.listen;
    if (!ports.empty()) address.port = static_cast<uint16_t>(ports.front());
    return std::unique_ptr<Server>(new Server(std::move(parts), std::move(address)));
  } catch (const std::exception& failure) {
    return Status(Code::kResourceExhausted, reasons::kInternal,
                  "cannot serve metrics at " + options.listen.ToString() + ": " + failure.what());
  }
}

Server::Server(std::unique_ptr<Parts> parts, os::HostPort address)
    : parts_(std::move(parts)), address_(std::move(address)) {}

Server::~Server() = default;

}  // namespace onecopy::metrics
