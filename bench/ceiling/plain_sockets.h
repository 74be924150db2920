// The ceiling of what goes over tcp: the same bytes through the same number of sockets over
// loopback, and nothing else.
#pragma once

#include <memory>
#include <vector>

#include "bench/ceiling/lane_memory.h"
#include "bench/ceiling/loopback.h"
#include "bench/measure/mover.h"

namespace onecopy::bench {

// How plain sockets move.
struct SocketsWay {
  uint64_t bytes = 1;
  unsigned lanes = 1;
  // Of one send or recv. Longer calls are slower (by a third where all that is left is offered at
  // once): the receiver then begins when much of it has left the cache already; so are shorter
  // ones.
  uint64_t call_bytes = uint64_t{256} << 10;
  // Whether each end of a lane uses one buffer of a call's size again and again, which stays in the
  // cache, rather than memory of the payload's size.
  bool reused = false;
};

// Between resident memories. Each lane is a connected socket with a thread at each end that moves
// one stripe of the payload by blocking send and recv, in calls of the size that is fastest: what a
// good programmer would write. The sockets stay connected between samples, as the link's do.
class PlainSockets final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(const SocketsWay& way);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  explicit PlainSockets(const SocketsWay& way) : way_(way) {}

  const SocketsWay way_;
  LaneMemory memory_;
  std::vector<SocketPair> lanes_;
};

}  // namespace onecopy::bench
