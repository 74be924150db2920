// The attached clients: one session per connection of attach.sock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/secret_digest.h"
#include "transport/core/contracts/import_request.h"
#include "transport/os/threads/closer.h"

namespace onecopy::engine {

// What the kernel says about a client (SO_PEERCRED and /proc), or its certificate, and what the
// client says about itself.
struct ClientIdentity {
  int32_t pid = 0;  // 0: of no process that is known, but of a connection to `entrance`
  Uid uid;
  uint32_t gid = 0;
  bool same_pid_namespace = true;
  // Keeps the kernel from giving the numbers in `uid` to other namespaces.
  std::shared_ptr<const void> held_namespaces;
  // Who may present the session's token: see os::PresenterText.
  std::string presenter;
  // Comes from a network: known by a certificate, never an administrator, and without descriptors
  // to pass.
  bool remote = false;
  std::string entrance;  // for logs, if no process is known: "api.sock", "ipv4:10.1.1.7:4711"
  std::string cgroup;    // for logs
  std::string program;   // likewise

  // Beside its uid: "pid 17 (onecopy 1.0), cgroup /user.slice", "api.sock (example 1.0)".
  std::string ToString() const;
};

// Engine thread.
class Sessions {
 public:
  // Descriptors of one session that wait to be used: those of one buffer in many allocations, and
  // of others beside.
  static constexpr size_t kMaxDeposits = kMaxAllocations + 256;

  struct Opened {
    SessionId id;
    std::string token;  // the secret that its calls carry
  };

  // `daemon_uid` is an administrator's, as is uid 0, in the daemon's own namespaces.
  Sessions(std::string node, uint32_t daemon_uid, Ledger ledger);
  Sessions(const std::string& node,
           uint32_t daemon_uid)  // with the limits that there are by default
      : Sessions(node, daemon_uid, Ledger(node, {})) {}

  Result<Opened> Open(const ClientIdentity& identity);
  // Everything of the session goes: its deposits here, and whatever `closed` listeners hold for it.
  void Close(const SessionId& id);

  // UNAUTHENTICATED (NO_SESSION) for a token that no open session has.
  Result<Principal> Find(const std::string& token) const;
  // The same for a token that comes over a connection of that presenter: the token is useless to
  // any other user.
  Result<Principal> FindFor(const std::string& token, const std::string& presenter) const;
  Result<Principal> PrincipalOf(const SessionId& id) const;
  const ClientIdentity* Identity(const SessionId& id) const;
  // Who that is beside its uid, for the audit log: "pid 17 (onecopy 1.0)".
  std::string Describe(const SessionId& id) const;
  // Becomes true, for any thread, once the session has ended: what is queued for it is not needed
  // any more. Null for a session that is not open.
  std::shared_ptr<const std::atomic<bool>> Gone(const SessionId& id) const;

  // Keeps a descriptor until it is taken or the session ends; the number names it. `file`: it is a
  // file's, and counts for no memory.
  Result<uint64_t> Deposit(const SessionId& id, os::PassedFd fd, bool file = false);
  // INVALID_ARGUMENT (BAD_HANDLE) for a number that names none, or none of that kind.
  Result<os::PassedFd> Take(const SessionId& id, uint64_t fd_handle, bool file = false);

  // Called with each session that ends.
  void OnClosed(std::function<void(const SessionId&)> listener) { closed_ = std::move(listener); }

 private:
  struct Deposited {
    os::PassedFd fd;
    bool file = false;
  };
  struct Session {
    ClientIdentity identity;
    SecretDigest token;
    std::map<uint64_t, Deposited> deposits;
    uint64_t next_deposit = 1;
    Ledger::Charge charge;
    Ledger::Charge deposited;
    std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
  };

  bool IsAdministrator(const ClientIdentity& identity) const;

  const std::string node_;
  const uint32_t daemon_uid_;
  const Ledger ledger_;
  std::unordered_map<SessionId, Session> sessions_;
  std::map<SecretDigest, SessionId> by_token_;
  uint64_t next_session_ = 1;
  std::function<void(const SessionId&)> closed_;
};

}  // namespace onecopy::engine
