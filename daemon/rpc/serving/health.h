// grpc.health.v1 of one server: SERVING until it drains. Our own, because gRPC's runs on threads of
// gRPC that cost more than the whole idle daemon may.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/serving/call.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {

// Any thread. Must outlive the server's completion queue.
class Health {
 public:
  // Knows these services, and the server as a whole (""). So many may watch at a time: it takes no
  // session, so whose a watch is cannot be told.
  Health(std::vector<std::string> names, size_t most_watches);

  grpc::Service& service() { return service_; }
  // Once the server is built.
  void Serve(const Serving& serving);
  // NOT_SERVING from now on, which watchers are told.
  void Drain();

 private:
  using Response = grpc::health::v1::HealthCheckResponse;

  bool Knows(const std::string& service) const;
  Response Now() const ONECOPY_REQUIRES(mutex_);
  void Watch(const std::string& service, const std::weak_ptr<Subscriber<Response>>& watcher);

  const std::vector<std::string> names_;
  const size_t most_watches_;
  Unread<grpc::health::v1::Health> service_;
  Mutex mutex_;
  bool serving_ ONECOPY_GUARDED_BY(mutex_) = true;
  struct Watcher {
    std::weak_ptr<Subscriber<Response>> call;
    bool known = false;  // the service is one of ours
  };
  std::vector<Watcher> watchers_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::rpc
