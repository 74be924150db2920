#include "daemon/engine/sessions.h"

#include <utility>

#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kTokenBytes = 16;

Status NoSuchSession() {
  return {Code::kUnauthenticated, reasons::kNoSession, "no session is attached",
          "attach again: a session ends with its connection to attach.sock"};
}

}  // namespace

Sessions::Sessions(std::string node, uint32_t daemon_uid)
    : node_(std::move(node)), daemon_uid_(daemon_uid) {}

Result<Sessions::Opened> Sessions::Open(const ClientIdentity& identity) {
  if (sessions_.size() >= kMostSessions) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "this node serves " + std::to_string(kMostSessions) +
                      " clients already, and no more at a time",
                  "end some of the programs that are attached");
  }
  Opened opened{SessionId("s" + std::to_string(next_session_++)), os::RandomHex(kTokenBytes)};
  by_token_.emplace(opened.token, opened.id);
  Session& session = sessions_[opened.id];
  session.identity = identity;
  session.token = opened.token;
  return opened;
}

void Sessions::Close(const SessionId& id) {
  auto node = sessions_.extract(id);
  if (node.empty()) return;
  by_token_.erase(node.mapped().token);
  if (closed_) closed_(node.key());
}

Result<Principal> Sessions::Find(const std::string& token) const {
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return NoSuchSession();
  return PrincipalOf(found->second);
}

Result<Principal> Sessions::PrincipalOf(const SessionId& id) const {
  const ClientIdentity* identity = Identity(id);
  if (identity == nullptr) return NoSuchSession();
  // In a container every program may be uid 0, or seem to be whom the daemon runs as.
  const bool administrator =
      identity->same_pid_namespace && (identity->uid == 0 || identity->uid == daemon_uid_);
  return Principal{identity->uid, node_, administrator, id};
}

const ClientIdentity* Sessions::Identity(const SessionId& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second.identity;
}

Result<uint64_t> Sessions::Deposit(const SessionId& id, os::UniqueFd fd) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return NoSuchSession();
  Session& session = found->second;
  if (session.deposits.size() >= kMostDeposits) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "this session has passed " + std::to_string(kMostDeposits) +
                      " descriptors that are not used yet, and may pass no more",
                  "register the buffers that they are meant for first");
  }
  const uint64_t fd_handle = session.next_deposit++;
  session.deposits.emplace(fd_handle, std::move(fd));
  return fd_handle;
}

Result<os::UniqueFd> Sessions::Take(const SessionId& id, uint64_t fd_handle) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return NoSuchSession();
  auto deposit = found->second.deposits.extract(fd_handle);
  if (deposit.empty()) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "fd_handle " + std::to_string(fd_handle) + " names no descriptor of this session",
                  "pass the descriptor on attach.sock first; each one can be used once");
  }
  return std::move(deposit.mapped());
}

}  // namespace onecopy::engine
