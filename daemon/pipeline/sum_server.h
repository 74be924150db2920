// Checksums of a range that another node reads by small copies: SmallGets' other end.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "daemon/pipeline/sum_message.h"
#include "daemon/pipeline/summed_end.h"
#include "onecopy/range.h"
#include "transport/core/base/executor.h"
#include "transport/core/contracts/link.h"

namespace onecopy::pipeline {

// Answers each request of the reader with the checksum of a range, if the range was opened to it.
// It runs on the connection's executor, which other connections share, so it sums a little at a
// time.
class SumServer : public std::enable_shared_from_this<SumServer> {
 public:
  struct Params {
    std::shared_ptr<Connection> connection;
    ChannelId channel = 0;  // on which the reader asks
    ByteRange from;         // what it may name of the buffer
    uint64_t most_bytes = 0;
    RegionRef region;   // SummedEnd works with it
    uint64_t base = 0;  // where the buffer begins in it
  };

  // Any thread: listens from now on.
  static std::shared_ptr<SumServer> Start(const Params& way);

  // Any thread. Stops summing, tells the reader, and releases the memory before `stopped` runs on
  // the executor. Safe to repeat.
  void Stop(Task stopped);

 private:
  // In one turn on the executor.
  static constexpr uint64_t kTurnBytes = uint64_t{256} << 10;

  explicit SumServer(const Params& way);

  void Hear(std::span<const std::byte> message);
  void TakeTurn();
  std::optional<SmallSum> Sum(const SumAsked& asked) const;
  void Tell(std::span<const SumTold> told);

  const std::shared_ptr<Connection> connection_;
  const ChannelId channel_;
  const ByteRange from_;
  const uint64_t most_bytes_;
  std::optional<SummedEnd> end_;  // until it stops
  std::deque<SumAsked> asked_;    // and not answered yet
};

}  // namespace onecopy::pipeline
