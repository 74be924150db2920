// Copies from another node that asks for each: SmallPushes' other end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/pipeline/small_reader.h"
#include "onecopy/range.h"
#include "transport/core/base/executor.h"
#include "transport/core/contracts/link.h"

namespace onecopy::pipeline {

// Moves what the owner names, inside what the two sides have agreed on, and answers each. Runs on
// the connection's executor.
class SmallServer : public std::enable_shared_from_this<SmallServer> {
 public:
  struct Params {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;  // on which the owner asks
    ByteRange from;         // what it may name of the source's buffer
    ByteRange to;           // likewise of the destination's
    uint64_t most_bytes = 0;
    std::unique_ptr<SmallReader> reader;
  };

  // Any thread: listens from now on.
  static std::shared_ptr<SmallServer> Start(Params way);

  // Any thread: takes nothing more, ends what is under way, says so, and lets everything go before
  // `stopped` runs, on the executor. Safe to repeat; the first one's reason counts.
  void Stop(const Status& why, Task stopped);

 private:
  // With more under way nothing is taken: what one owner asks for in advance is bounded in time.
  // An owner's ring stops far below this.
  static constexpr uint64_t kManyBytes = uint64_t{8} << 30;

  explicit SmallServer(Params way) : way_(std::move(way)) {}

  void Hear(std::span<const std::byte> message);
  void Serve(const Push& push);
  Status Check(const Push& push) const;
  void Answer(uint64_t number, const Status& status);
  void EndIfIdle();

  Params way_;
  uint32_t under_way_ = 0;
  uint64_t bytes_under_way_ = 0;
  Status why_;  // not OK once it is stopping
  std::vector<Task> stopped_;
};

}  // namespace onecopy::pipeline
