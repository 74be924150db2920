// Streams by epoll.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/ceiling/event_streams.h"
#include "bench/ceiling/event_wait.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kTurnBytes = uint64_t{8} << 20;  // then the thread's other lanes have their turn

class EpollStreams final : public StreamEngine {
 public:
  EpollStreams(StreamDirection direction, const std::vector<StreamEnd>& ends, Epoll epoll,
               uint64_t low_water_bytes)
      : sends_(direction == StreamDirection::kSend),
        most_low_water_(sends_ ? 1 : low_water_bytes),
        epoll_(std::move(epoll)),
        open_(ends.size()) {
    for (const StreamEnd& end : ends) lanes_.push_back({.end = end});
  }

  Status Watch() {
    for (unsigned i = 0; i < lanes_.size(); ++i) {
      ONECOPY_RETURN_IF_ERROR(SetLowWater(lanes_[i]));
      ONECOPY_RETURN_IF_ERROR(epoll_.Add(lanes_[i].end.fd, sends_ ? EPOLLOUT : EPOLLIN, i));
    }
    return OkStatus();
  }

  Status Run() override {
    while (open_ > 0) {
      ++calls_;
      ONECOPY_RETURN_IF_ERROR(epoll_.Wait([this](unsigned lane, uint32_t) { return Turn(lane); }));
    }
    return OkStatus();
  }

  uint64_t system_calls() const override { return calls_; }

 private:
  struct Lane {
    StreamEnd end;
    uint64_t done = 0;
    uint64_t low_water = 1;  // a socket's own
  };

  // What does not come any more is nothing to wait for.
  Status SetLowWater(Lane& lane) {
    const uint64_t wanted =
        std::max(std::min(most_low_water_, lane.end.bytes - lane.done), uint64_t{1});
    if (wanted == lane.low_water) return OkStatus();
    lane.low_water = wanted;
    ++calls_;
    const auto bytes = static_cast<int>(wanted);
    if (::setsockopt(lane.end.fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0) {
      return OkStatus();
    }
    return os::ErrnoStatus(errno, "setting SO_RCVLOWAT");
  }

  Status Turn(unsigned index) {
    Lane& lane = lanes_[index];
    for (uint64_t turn = 0; turn < kTurnBytes && lane.done < lane.end.bytes;) {
      const std::span<std::byte> next = lane.end.OperationAt(lane.done);
      const ssize_t moved = sends_ ? ::send(lane.end.fd, next.data(), next.size(), MSG_NOSIGNAL)
                                   : ::recv(lane.end.fd, next.data(), next.size(), 0);
      ++calls_;
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return SetLowWater(lane);
      if (moved <= 0) return os::ErrnoStatus(moved == 0 ? ECONNRESET : errno, "a lane of epoll");
      lane.done += static_cast<uint64_t>(moved);
      turn += static_cast<uint64_t>(moved);
    }
    ONECOPY_RETURN_IF_ERROR(SetLowWater(lane));
    if (lane.done < lane.end.bytes) return OkStatus();
    --open_;
    return epoll_.Remove(lane.end.fd);
  }

  const bool sends_;
  const uint64_t most_low_water_;
  Epoll epoll_;
  std::vector<Lane> lanes_;
  size_t open_;
  uint64_t calls_ = 0;
};

}  // namespace

Result<std::unique_ptr<StreamEngine>> MakeEpollStreams(StreamDirection direction,
                                                       const std::vector<StreamEnd>& ends,
                                                       uint64_t low_water_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(Epoll epoll, Epoll::Create());
  auto streams = std::make_unique<EpollStreams>(direction, ends, std::move(epoll), low_water_bytes);
  ONECOPY_RETURN_IF_ERROR(streams->Watch());
  return std::unique_ptr<StreamEngine>(std::move(streams));
}

}  // namespace onecopy::bench
