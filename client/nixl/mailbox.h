// An agent's notifications: a buffer of a page to which others send messages, and those that came.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/nixl/abi.h"
#include "client/nixl/note.h"
#include "client/nixl/session.h"
#include "client/nixl/wire.h"
#include "onecopy/arrival_watch.h"
#include "onecopy/client.h"
#include "onecopy/host_buffer.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// Thread-safe. A thread of its own receives, so that senders never wait for an agent that does not
// ask; and so that an agent that only waits is registered again soon after its daemon's restart.
class Mailbox {
 public:
  Mailbox(std::string agent, std::vector<std::string> grant_to);
  ~Mailbox();

  // The buffer's name, which stays the same.
  const std::string& buffer() const { return name_; }

  // Once: makes the buffer and begins to receive. The session must outlive this.
  Status Open(Session& session);
  // What a new session of the client's lacks beside the buffer itself.
  Status Restore(Client& client) const;

  // Blocks until the other agent's daemon has the notification. FAILED_PRECONDITION (NOT_WATCHED)
  // or NOT_FOUND where the agent has gone; INVALID_ARGUMENT (BAD_SIZE) as SplitNote.
  Status Send(Client& client, const AgentPlace& to, const std::string& text);

  // Nothing comes any more, and the buffer ends, for which the daemon has 5 s. Safe to repeat, by
  // one thread at a time; no other thread restores it meanwhile.
  void Close();

  // Moves what has come to the end of `out`, in the order in which it came.
  void Take(abi::Notifications& out);

 private:
  // `watch` first, then others, for as long as no stop is requested.
  void Receive(const std::stop_token& stop, std::shared_ptr<ArrivalWatch> watch);
  // Until the watch has ended, as its status says.
  Status ReceiveOn(ArrivalWatch& watch, const std::stop_token& stop);
  // Waits for a while, or until a stop is requested.
  void Pause(const std::stop_token& stop);

  const std::string agent_;
  const std::string name_;
  const std::vector<std::string> grant_to_;
  std::atomic<uint64_t> sent_{0};
  Session* session_ = nullptr;
  std::optional<HostBuffer> memory_;

  Mutex mutex_;
  Condition changed_;
  abi::Notifications waiting_ ONECOPY_GUARDED_BY(mutex_);
  NoteReader reader_;      // of the thread
  std::jthread receiver_;  // last: it uses the rest
};

}  // namespace onecopy::nixl
