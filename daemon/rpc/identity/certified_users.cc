#include "daemon/rpc/identity/certified_users.h"

#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

// Where an owner by certificate is told from the uid of this node: see Uid::namespaces. The kernel
// has no namespaces of that name.
constexpr char kByCertificate[] = "cert";

}  // namespace

Result<std::string> CertifiedUsers::UserOf(const grpc::ServerContext& context) {
  return proofs_.Of(
      context, "user",
      [this](const tls::Identity& identity, const tls::Chain& chain) -> Result<std::string> {
        ONECOPY_ASSIGN_OR_RETURN(const uint32_t uid, identity.VerifyUser(chain, node_));
        return std::to_string(uid);
      });
}

Result<std::string> CertifiedUsers::Presenter(const grpc::ServerContext& context) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string uid, UserOf(context));
  return "certificate of user " + uid;
}

Presenters::Payer CertifiedUsers::PayerOf(const grpc::ServerContext& context) {
  const Result<std::string> uid = UserOf(context);
  if (!uid.ok()) return {engine::Stranger(context.peer()), false};
  return {{Uid(static_cast<uint32_t>(std::stoul(*uid)), kByCertificate), node_}, false};
}

Result<engine::ClientIdentity> CertifiedUsers::Identity(const grpc::ServerContext& context) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string uid, UserOf(context));
  engine::ClientIdentity identity;
  identity.uid = Uid(static_cast<uint32_t>(std::stoul(uid)), kByCertificate);
  identity.same_pid_namespace = false;
  identity.presenter = "certificate of user " + uid;
  identity.remote = true;
  identity.entrance = context.peer();
  return identity;
}

std::shared_ptr<void> CertifiedUsers::WhenUnproven(const grpc::ServerContext& context,
                                                   std::function<void(const Status&)> ended) {
  Result<tls::Chain> chain = PresentedBy(context);
  if (!chain.ok()) {
    ended(chain.status());
    return nullptr;
  }
  // Generation 0: looked at once more at the next turn, in case all has changed just now.
  auto watched = std::make_shared<Watched>(Watched{*std::move(chain), 0, {}, std::move(ended)});
  const MutexLock lock(mutex_);
  watched_.push_back(watched);
  return watched;
}

void CertifiedUsers::LookAgain() {
  const tls::Trust::Current current = trust_->Now();
  const os::Clock::time_point now = os::Clock::now();
  std::vector<std::pair<std::shared_ptr<Watched>, Status>> unproven;
  {
    const MutexLock lock(mutex_);
    for (auto entry = watched_.begin(); entry != watched_.end();) {
      const auto watched = entry->lock();
      if (watched == nullptr) {
        entry = watched_.erase(entry);
        continue;
      }
      ++entry;
      if (watched->generation == current.generation &&
          now - watched->since < tls::Trust::kBelieveFor) {
        continue;
      }
      watched->generation = current.generation;
      watched->since = now;
      const Result<uint32_t> user = current.identity->VerifyUser(watched->chain, node_);
      if (!user.ok()) unproven.emplace_back(watched, user.status());
    }
  }
  for (const auto& [watched, why] : unproven) watched->ended(why);
}

}  // namespace onecopy::rpc
