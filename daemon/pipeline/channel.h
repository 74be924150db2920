// One transfer's messages on a connection.
#pragma once

#include <functional>
#include <memory>

#include "daemon/pipeline/message.h"
#include "transport/core/contracts/link.h"

namespace onecopy::pipeline {

// Listens from its creation to its destruction. Messages about chunks that come before a handler is
// set wait for it, so that a peer may begin before this side is ready. Created and destroyed on any
// thread; the rest on the connection's executor, unless it says otherwise.
class Channel {
 public:
  using Handler = std::function<void(const Message&)>;

  // `control` hears at once, on the executor, what is not about chunks: that the peer is ready,
  // waits, or has failed; the last of these the handler hears, too. `most_waiting_bytes`: of
  // messages that come before a handler is set, which fail it where they are more.
  Channel(std::shared_ptr<Connection> connection, ChannelId id, Handler control = nullptr,
          size_t most_waiting_bytes = size_t{2} << 20);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Connection& connection() { return *connection_; }
  ChannelId id() const { return id_; }

  void SetHandler(Handler handler);
  // Fails only when the connection is closed, which ends the transfer anyway. Any thread, but one
  // at a time where a message may be a long one.
  Status Send(const Message& message);

 private:
  struct Inbox;

  const std::shared_ptr<Connection> connection_;
  const ChannelId id_;
  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace onecopy::pipeline
