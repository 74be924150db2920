// Clients of a Unix socket, known by what the kernel says of them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/rpc/identity/listener.h"
#include "daemon/rpc/identity/presenters.h"
#include "transport/core/base/mutex.h"
#include "transport/os/machine/namespace_names.h"

namespace onecopy::rpc {

// Any thread. gRPC says of a call no more than by which door it came (see Doors), so that what is
// known of a client is known of all of the same user in the same namespaces.
class LocalPresenters final : public Presenters {
 public:
  LocalPresenters(std::string node, std::shared_ptr<os::NamespaceNames> names)
      : node_(std::move(node)), names_(std::move(names)) {}

  // Everybody may connect. Root and the daemon's own user are administrators, in the daemon's own
  // namespaces. UNAVAILABLE (LINK_DOWN) for a client that has ended.
  Result<Admitted> Admit(int fd);

  Result<std::string> Presenter(const grpc::ServerContext& context) override;
  Payer PayerOf(const grpc::ServerContext& context) override;
  // PERMISSION_DENIED (ACCESS_DENIED) for one whose namespaces cannot be told from others'.
  Result<engine::ClientIdentity> Identity(const grpc::ServerContext& context) override;
  std::shared_ptr<void> WhenUnproven(const grpc::ServerContext&,
                                     std::function<void(const Status&)>) override {
    return nullptr;
  }

 private:
  struct Known {
    engine::ClientIdentity identity;
    bool alone = false;
    bool administrator = false;
  };

  const std::string node_;
  const std::shared_ptr<os::NamespaceNames> names_;
  Mutex mutex_;
  // By presenter, for as long as one of their connections is open.
  std::map<std::string, std::weak_ptr<const Known>> known_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::rpc
