// Who is attached: one session per connection of attach.sock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "daemon/engine/types.h"
#include "transport/os/unique_fd.h"

namespace onecopy::engine {

// What the kernel says about a client (SO_PEERCRED and /proc), and what the client says about
// itself.
struct ClientIdentity {
  int32_t pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool same_pid_namespace = true;
  std::string program;  // for logs
};

// Engine thread.
class Sessions {
 public:
  static constexpr size_t kMostSessions = 4096;
  static constexpr size_t kMostDeposits = 64;  // descriptors of one session that wait to be used

  struct Opened {
    SessionId id;
    std::string token;  // the secret that its calls carry
  };

  // `daemon_uid` is an administrator's, as is uid 0 outside any container.
  Sessions(std::string node, uint32_t daemon_uid);

  Result<Opened> Open(const ClientIdentity& identity);
  // Everything of the session goes: its deposits here, and whatever `closed` listeners hold for it.
  void Close(const SessionId& id);

  // UNAUTHENTICATED (NO_SESSION) for a token that no open session has.
  Result<Principal> Find(const std::string& token) const;
  Result<Principal> PrincipalOf(const SessionId& id) const;
  const ClientIdentity* Identity(const SessionId& id) const;

  // Keeps a descriptor until it is taken or the session ends; the number names it.
  Result<uint64_t> Deposit(const SessionId& id, os::UniqueFd fd);
  // INVALID_ARGUMENT (BAD_HANDLE) for a number that names none.
  Result<os::UniqueFd> Take(const SessionId& id, uint64_t fd_handle);

  // Called with each session that ends.
  void OnClosed(std::function<void(const SessionId&)> listener) { closed_ = std::move(listener); }

 private:
  struct Session {
    ClientIdentity identity;
    std::string token;
    std::map<uint64_t, os::UniqueFd> deposits;
    uint64_t next_deposit = 1;
  };

  const std::string node_;
  const uint32_t daemon_uid_;
  std::unordered_map<SessionId, Session> sessions_;
  std::unordered_map<std::string, SessionId> by_token_;
  uint64_t next_session_ = 1;
  std::function<void(const SessionId&)> closed_;
};

}  // namespace onecopy::engine
