// Clients of other machines, known by their certificates.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "daemon/rpc/identity/presenters.h"
#include "daemon/rpc/identity/proofs.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {

// A certificate for URI:onecopy://user/1000@west makes its owner, at node west alone, the owner
// "1000+cert@west": nobody's uid there, and never an administrator.
class CertifiedUsers final : public Presenters {
 public:
  CertifiedUsers(std::string node, std::shared_ptr<tls::Trust> trust)
      : node_(std::move(node)), trust_(trust), proofs_(std::move(trust)) {}

  Result<std::string> Presenter(const grpc::ServerContext& context) override;
  Payer PayerOf(const grpc::ServerContext& context) override;
  Result<engine::ClientIdentity> Identity(const grpc::ServerContext& context) override;
  std::shared_ptr<void> WhenUnproven(const grpc::ServerContext& context,
                                     std::function<void(const Status& why)> ended) override;

  // Any thread, every second or so: looks again at what open streams rest on, where it is time to.
  void LookAgain();

 private:
  struct Watched {
    tls::Chain chain;
    uint64_t generation = 0;
    os::Clock::time_point since{};
    std::function<void(const Status&)> ended;
  };

  // The uid, as text.
  Result<std::string> UserOf(const grpc::ServerContext& context);

  const std::string node_;
  const std::shared_ptr<tls::Trust> trust_;
  Proofs proofs_;
  Mutex mutex_;
  std::list<std::weak_ptr<Watched>> watched_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::rpc
