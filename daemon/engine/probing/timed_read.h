// A timed reading over one lane of a connection, or over all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/link.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

struct TimedReadParams {
  std::shared_ptr<Connection> connection;
  ChannelId channel = 0;
  std::shared_ptr<const RemoteKey> key;
  Span into;  // and the same range of what the key was made for
  int lane = GetRequest::kAnyLane;
  unsigned depth = 1;  // gets in flight
  // The span is read again and again until either is reached.
  uint64_t most_bytes = 0;
  os::Clock::duration most_time{};
};

struct TimedReadResult {
  Status status;
  uint64_t landed = 0;  // bytes of the span, from its beginning, that have been read at least once
  double seconds = 0;   // that the link was busy
  double bytes_per_second = 0;
  double latency_seconds = 0;  // of the smallest get
};

// Any thread. A few small gets one after the other, for the latency, then many. `done` runs on the
// connection's executor, after nothing writes to the span any more; CancelGets of the channel ends
// it early.
void StartTimedRead(TimedReadParams params, UniqueFunction<void(TimedReadResult)> done);

}  // namespace onecopy::engine
