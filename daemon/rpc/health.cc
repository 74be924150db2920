#include "daemon/rpc/health.h"

#include <algorithm>
#include <utility>

namespace onecopy::rpc {

using Service = grpc::health::v1::Health::AsyncService;
using Request = grpc::health::v1::HealthCheckRequest;

Health::Health(std::vector<std::string> names) : names_(std::move(names)) {}

void Health::Serve(const Serving& serving) {
  ServeUnary(service_, &Service::RequestCheck, serving,
             [this](const grpc::ServerContext&, const Request& request, Responder<Response> reply) {
               if (!Knows(request.service())) {
                 return reply(Status(Code::kNotFound, reasons::kNotServed,
                                     "no service \"" + request.service() + "\""));
               }
               const std::lock_guard lock(mutex_);
               reply(Now());
             });
  ServeStream(service_, &Service::RequestWatch, serving,
              [this](const grpc::ServerContext&, const Request& request,
                     const std::weak_ptr<Subscriber<Response>>& watcher) {
                Watch(request.service(), watcher);
              });
}

void Health::Drain() {
  const std::lock_guard lock(mutex_);
  serving_ = false;
  for (const auto& watcher : watchers_) {
    if (const auto call = watcher.lock()) call->Update(Now(), false);
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
  if (!Knows(service)) {
    Response unknown;
    unknown.set_status(Response::SERVICE_UNKNOWN);
    return call->Update(unknown, false);  // and stays so: services do not come later
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(watchers_, [](const auto& other) { return other.expired(); });
  watchers_.push_back(watcher);
  call->Update(Now(), false);
}

}  // namespace onecopy::rpc
