// Messages without a transfer, to a buffer's watcher, from users that may write into the buffer.
#pragma once

#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/request_log.h"

namespace onecopy::engine {

// Engine thread.
class Messages {
 public:
  Messages(const Context& context, Buffers& buffers, const Grants& grants, Arrivals& arrivals,
           RequestMemory& memory)
      : context_(context),
        buffers_(buffers),
        grants_(grants),
        arrivals_(arrivals),
        requests_(memory, "message") {}

  // For a buffer of this node; see PeerApi::SendMessage. A repeated request is answered as done,
  // and its message is not delivered again.
  Status Take(const std::string& caller, const PeerMessage& message);

 private:
  Status Tell(const Principal& who, const MessageRequest& asked);

  const Context& context_;
  Buffers& buffers_;
  const Grants& grants_;
  Arrivals& arrivals_;
  RequestLog<bool> requests_;
};

}  // namespace onecopy::engine
