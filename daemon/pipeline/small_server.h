// Small copies from another node that asks for each: SmallPushes' other end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "daemon/pipeline/push_message.h"
#include "onecopy/range.h"
#include "transport/core/link.h"

namespace onecopy::pipeline {

// Gets what the owner names, inside what the two sides have agreed on, and answers each. Runs on
// the connection's executor.
class SmallServer : public std::enable_shared_from_this<SmallServer> {
 public:
  struct Params {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;  // on which the owner asks
    RemoteKey key;
    ByteRange from;  // the key's bytes, in the source's buffer
    RegionRef into;  // registered with the link
    ByteRange to;    // what the owner may name of the destination's buffer
    uint64_t most_bytes = 0;
    std::shared_ptr<void> held;  // goes with the server
    uint64_t to_base = 0;        // where the destination's buffer begins in what it is a part of
  };

  // Any thread: listens from now on.
  static std::shared_ptr<SmallServer> Start(Params way);

  // Any thread: takes nothing more, ends what is under way, says so, and lets everything go before
  // `stopped` runs, on the executor. Safe to repeat; the first one's reason counts.
  void Stop(const Status& why, Task stopped);

 private:
  explicit SmallServer(Params way) : way_(std::move(way)) {}

  void Hear(std::span<const std::byte> message);
  void Serve(const Push& push);
  Status Check(const Push& push) const;
  void Answer(uint64_t number, const Status& status);
  void EndIfIdle();

  Params way_;
  uint32_t under_way_ = 0;
  Status why_;  // not OK once it is stopping
  std::vector<Task> stopped_;
};

}  // namespace onecopy::pipeline
