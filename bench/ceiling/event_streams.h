// The same streams over loopback by either event engine: what epoll and io_uring cost at equal
// work.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/ceiling/lane_memory.h"
#include "bench/ceiling/loopback.h"
#include "bench/ceiling/ring.h"
#include "bench/measure/mover.h"

namespace onecopy::bench {

// One end of a lane: what it moves, and through what.
struct StreamEnd {
  int fd = -1;
  std::span<std::byte> buffer = {};  // from its begin again wherever it ends
  uint64_t bytes = 0;
  uint64_t operation_bytes = 1;

  // What the operation moves that begins after so many bytes: up to the end of the buffer, or of
  // the piece of operation_bytes that it begins in.
  std::span<std::byte> OperationAt(uint64_t done) const;
};

enum class StreamDirection { kSend, kReceive };

// The ends of one thread, moved by an event loop.
class StreamEngine {
 public:
  virtual ~StreamEngine() = default;
  // Once, on any one thread. Ends when all is moved.
  virtual Status Run() = 0;
  virtual uint64_t system_calls() const = 0;
  virtual bool deferred() const { return false; }  // of a ring: see RingWay
};

// Sockets that do not block: epoll_wait, then send or recv until EAGAIN, or until another lane's
// turn has come, as the tcp link does it. With `low_water_bytes` above 1, which the link has not, a
// receiver wakes when so many bytes are there (SO_RCVLOWAT), or all that is left.
Result<std::unique_ptr<StreamEngine>> MakeEpollStreams(StreamDirection direction,
                                                       const std::vector<StreamEnd>& ends,
                                                       uint64_t low_water_bytes);
// Sockets that block, registered with one ring; send, and recv with MSG_WAITALL. Fails as
// Ring::Create does.
Result<std::unique_ptr<StreamEngine>> MakeRingStreams(StreamDirection direction,
                                                      const std::vector<StreamEnd>& ends,
                                                      const RingWay& way);

struct EventStreamsWay {
  LaneShape shape = {};
  uint64_t operation_bytes = uint64_t{256} << 10;
  unsigned threads = 1;              // at each end, at most one for a lane
  std::optional<RingWay> ring = {};  // absent: epoll
  uint64_t low_water_bytes = 1;      // of epoll
};

// Lanes that stay connected, with `threads` threads at each end. Its engines are made anew for each
// sample, outside the time. Details: `threads`, `system_calls_per_gb` (sends, receives and waits),
// and of rings `deferred`: 1 or 0.
class EventStreams final : public Mover {
 public:
  // Fails as Ring::Create does.
  static Result<std::unique_ptr<Mover>> Create(const EventStreamsWay& way);

  Status Fill(uint64_t seed) override;
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t seed) override;

 private:
  using Engines = std::vector<std::unique_ptr<StreamEngine>>;
  explicit EventStreams(const EventStreamsWay& way) : way_(way) {}
  Result<Engines> MakeEngines() const;
  Status AddEngine(StreamDirection direction, unsigned thread, Engines& engines) const;

  const EventStreamsWay way_;
  LaneMemory memory_;
  std::vector<SocketPair> lanes_;
};

}  // namespace onecopy::bench
