#include "daemon/rpc/serving/health.h"

#include <algorithm>
#include <utility>

namespace onecopy::rpc {

using Service = Unread<grpc::health::v1::Health>;
using Request = grpc::health::v1::HealthCheckRequest;

Health::Health(std::vector<std::string> names, size_t most_watches)
    : names_(std::move(names)), most_watches_(most_watches) {}

void Health::Serve(const Serving& serving) {
  ServeUnary(
      service_, &Service::RequestCheck, serving,
      [this](const grpc::ServerContext&, Received<Request> received, Responder<Response> reply) {
        const Result<const Request*> request = received.ReadShort();
        if (!request.ok()) return reply(request.status());
        const std::string& service = (*request)->service();
        if (!Knows(service)) {
          return reply(
              Status(Code::kNotFound, reasons::kNotServed, "no service \"" + service + "\""));
        }
        const MutexLock lock(mutex_);
        reply(Now());
      });
  ServeStream(service_, &Service::RequestWatch, serving,
              [this](const grpc::ServerContext&, const Request& request,
                     const std::weak_ptr<Subscriber<Response>>& watcher) {
                Watch(request.service(), watcher);
              });
}

void Health::Drain() {
  const MutexLock lock(mutex_);
  serving_ = false;
  for (const Watcher& watcher : watchers_) {
    const auto call = watcher.known ? watcher.call.lock() : nullptr;
    if (call) call->Update(Now(), false);
  }
}

bool Health::Knows(const std::string& service) const {
  return service.empty() || std::find(names_.begin(), names_.end(), service) != names_.end();
}

Health::Response Health::Now() const {
  Response response;
  response.set_status(serving_ ? Response::SERVING : Response::NOT_SERVING);
  return response;
}

void Health::Watch(const std::string& service, const std::weak_ptr<Subscriber<Response>>& watcher) {
  const auto call = watcher.lock();
  if (!call) return;
  const MutexLock lock(mutex_);
  std::erase_if(watchers_, [](const Watcher& other) { return other.call.expired(); });
  if (watchers_.size() >= most_watches_) {
    return call->Fail({Code::kResourceExhausted, reasons::kQuota,
                       std::to_string(watchers_.size()) +
                           " clients watch this server's health, which is the limit",
                       "use Check, or raise [limits] health_watches"});
  }
  watchers_.push_back({watcher, Knows(service)});
  if (watchers_.back().known) return call->Update(Now(), false);
  Response unknown;
  unknown.set_status(Response::SERVICE_UNKNOWN);
  call->Update(unknown, false);  // and stays so: services do not come later
}

}  // namespace onecopy::rpc
