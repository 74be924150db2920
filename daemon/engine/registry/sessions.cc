#include "daemon/engine/registry/sessions.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kTokenBytes = 16;

Status NoSuchSession() {
  return {Code::kUnauthenticated, reasons::kNoSession, "no session is attached",
          "reconnect: a session ends with its connection to attach.sock or its OpenSession stream"};
}

}  // namespace

std::string ClientIdentity::ToString() const {
  const std::string where = pid == 0 ? entrance : "pid " + std::to_string(pid);
  std::string text = where + " (" + program + ")";
  return cgroup.empty() ? text : text + ", cgroup " + cgroup;
}

Sessions::Sessions(std::string node, uint32_t daemon_uid, Ledger ledger)
    : node_(std::move(node)), daemon_uid_(daemon_uid), ledger_(std::move(ledger)) {}

bool Sessions::IsAdministrator(const ClientIdentity& identity) const {
  // In a container every program may be uid 0, or seem to be whom the daemon runs as.
  if (identity.remote) return false;
  return identity.uid == Uid(0) || identity.uid == Uid(daemon_uid_);
}

Result<Sessions::Opened> Sessions::Open(const ClientIdentity& identity) {
  ONECOPY_ASSIGN_OR_RETURN(
      Ledger::Charge charge,
      ledger_.Take(Charged::kSessions, {identity.uid, node_}, IsAdministrator(identity)));
  Opened opened{SessionId("s" + std::to_string(next_session_++)), os::RandomHex(kTokenBytes)};
  const SecretDigest token(opened.token);
  by_token_.emplace(token, opened.id);
  Session& session = sessions_[opened.id];
  session.identity = identity;
  session.token = token;
  session.charge = std::move(charge);
  // What was passed to another session, or to the daemon before, means nothing in this one.
  session.next_deposit = 1 + (os::RandomNumber() >> 16);
  return opened;
}

void Sessions::Close(const SessionId& id) {
  auto node = sessions_.extract(id);
  if (node.empty()) return;
  *node.mapped().gone = true;
  by_token_.erase(node.mapped().token);
  if (closed_) closed_(node.key());
}

Result<Principal> Sessions::Find(const std::string& token) const {
  const auto found = by_token_.find(SecretDigest(token));
  if (found == by_token_.end()) return NoSuchSession();
  return PrincipalOf(found->second);
}

Result<Principal> Sessions::FindFor(const std::string& token, const std::string& presenter) const {
  ONECOPY_ASSIGN_OR_RETURN(Principal who, Find(token));
  if (Identity(who.session)->presenter != presenter) return NoSuchSession();
  return who;
}

Result<Principal> Sessions::PrincipalOf(const SessionId& id) const {
  const ClientIdentity* identity = Identity(id);
  if (identity == nullptr) return NoSuchSession();
  return Principal{identity->uid, node_, IsAdministrator(*identity), id};
}

const ClientIdentity* Sessions::Identity(const SessionId& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second.identity;
}

std::string Sessions::Describe(const SessionId& id) const {
  const ClientIdentity* identity = Identity(id);
  return identity == nullptr ? std::string() : identity->ToString();
}

std::shared_ptr<const std::atomic<bool>> Sessions::Gone(const SessionId& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.gone;
}

Result<uint64_t> Sessions::Deposit(const SessionId& id, os::PassedFd fd, bool file) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return NoSuchSession();
  Session& session = found->second;
  if (session.deposits.size() >= kMaxDeposits) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "this session has passed " + std::to_string(kMaxDeposits) +
                      " descriptors that no buffer uses yet, which is the limit",
                  "register their buffers first");
  }
  ONECOPY_RETURN_IF_ERROR(ledger_.TakeInto(session.deposited, Charged::kDescriptors,
                                           {session.identity.uid, node_},
                                           IsAdministrator(session.identity)));
  const uint64_t fd_handle = session.next_deposit++;
  session.deposits.emplace(fd_handle, Deposited{std::move(fd), file});
  return fd_handle;
}

Result<os::PassedFd> Sessions::Take(const SessionId& id, uint64_t fd_handle, bool file) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return NoSuchSession();
  auto deposit = found->second.deposits.extract(fd_handle);
  if (deposit.empty() || deposit.mapped().file != file) {
    if (!deposit.empty()) found->second.deposited.GiveBack(1);
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "fd_handle " + std::to_string(fd_handle) + " does not name a descriptor of " +
                      (file ? "a file" : "memory") + " in this session",
                  "send the descriptor on attach.sock first; each one can be used once");
  }
  found->second.deposited.GiveBack(1);
  return std::move(deposit.mapped().fd);
}

}  // namespace onecopy::engine
