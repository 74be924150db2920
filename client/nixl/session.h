// The connection of one agent to its daemon, on which everything is registered again after the
// daemon was restarted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "onecopy/client.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// Thread-safe.
class Session {
 public:
  // Registers what a new session of the client's lacks. Called while no other thread is in Get.
  using Restore = std::function<Status(Client&)>;

  // As Client::Connect; `restore` is called for the first time.
  static Result<std::unique_ptr<Session>> Open(const ConnectOptions& options, Restore restore);

  const std::string& node() const { return client_->node(); }

  // The client, with all that is registered. UNAVAILABLE (DAEMON_UNREACHABLE) while no daemon
  // answers, after Note has seen that.
  Result<std::shared_ptr<Client>> Get();

  // The same without waiting: null where Get might have something to do.
  std::shared_ptr<Client> Ready() const { return doubts_ == settled_ ? client_ : nullptr; }

  // Never blocks. Returns the status, which a call of the client had, having looked whether its
  // session has gone.
  Status Note(Status status);

 private:
  Session(std::shared_ptr<Client> client, Restore restore);

  const std::shared_ptr<Client> client_;
  const Restore restore_;
  Mutex mutex_;
  std::atomic<uint64_t> doubts_{0};             // how often the session may have gone
  std::atomic<uint64_t> settled_{0};            // up to which of them it is there
  uint64_t number_ ONECOPY_GUARDED_BY(mutex_);  // of the session that has everything
};

}  // namespace onecopy::nixl
