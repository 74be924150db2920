// Streams by io_uring.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/ceiling/event_streams.h"
#include "transport/os/error.h"

namespace onecopy::bench {
namespace {

using Buffers = RingWay::Buffers;

constexpr uint64_t kMostRegistered = uint64_t{1} << 30;  // in one piece

class RingStreams final : public StreamEngine {
 public:
  RingStreams(StreamDirection direction, const std::vector<StreamEnd>& ends, const RingWay& way)
      : sends_(direction == StreamDirection::kSend), way_(way), open_(ends.size()) {
    for (const StreamEnd& end : ends) lanes_.push_back({.end = end});
  }

  Status MakeRing() {
    RingSetting setting = {.entries = static_cast<unsigned>(lanes_.size()) * way_.chain,
                           .deferred = way_.deferred,
                           .zero_copy = zero_copy()};
    for (Lane& lane : lanes_) {
      setting.files.push_back(lane.end.fd);
      if (!fixed() && !zero_copy()) continue;
      lane.first_buffer = static_cast<unsigned>(setting.buffers.size());
      for (uint64_t at = 0; at < lane.end.buffer.size(); at += kMostRegistered) {
        const uint64_t bytes = std::min(kMostRegistered, lane.end.buffer.size() - at);
        setting.buffers.push_back({lane.end.buffer.data() + at, bytes});
      }
    }
    ONECOPY_ASSIGN_OR_RETURN(ring_, Ring::Create(setting));
    return OkStatus();
  }

  Status Run() override {
    ONECOPY_RETURN_IF_ERROR(ring_->Enable());
    for (unsigned i = 0; i < lanes_.size(); ++i) Begin(i);
    Status status = OkStatus();
    while (open_ > 0 || notifications_ > 0) {
      ONECOPY_RETURN_IF_ERROR(ring_->SubmitAndWait(Awaited()));
      ring_->TakeCompletions([&](const io_uring_cqe& completion) {
        if (status.ok()) status = Ended(completion);
      });
      ONECOPY_RETURN_IF_ERROR(status);
    }
    return OkStatus();
  }

  uint64_t system_calls() const override { return ring_->turns(); }
  bool deferred() const override { return ring_->deferred(); }

 private:
  struct Lane {
    StreamEnd end;
    uint64_t done = 0;
    unsigned under_way = 0;
    unsigned first_buffer = 0;
  };

  bool fixed() const { return way_.buffers == Buffers::kFixed; }
  bool zero_copy() const { return sends_ && way_.buffers == Buffers::kZeroCopy; }

  // No more than what is under way can end.
  unsigned Awaited() const {
    unsigned most = notifications_;
    for (const Lane& lane : lanes_) most += lane.under_way;
    return std::min(way_.batch, most);
  }

  // Begins a lane's next chain, of which each operation waits for the one before.
  void Begin(unsigned index) {
    Lane& lane = lanes_[index];
    uint64_t at = lane.done;
    while (lane.under_way < way_.chain && at < lane.end.bytes) {
      const std::span<std::byte> next = lane.end.OperationAt(at);
      at += next.size();
      io_uring_sqe* const entry = ring_->Prepare();
      Fill(entry, index, next);
      ++lane.under_way;
      Ring::Finish(entry, index, lane.under_way < way_.chain && at < lane.end.bytes);
    }
  }

  void Fill(io_uring_sqe* entry, unsigned index, std::span<std::byte> next) const {
    const Lane& lane = lanes_[index];
    const auto file = static_cast<int>(index);
    const auto bytes = static_cast<unsigned>(next.size());
    const auto begin = static_cast<uint64_t>(next.data() - lane.end.buffer.data());
    const auto buffer = lane.first_buffer + static_cast<unsigned>(begin / kMostRegistered);
    if (zero_copy()) {
      io_uring_prep_send_zc_fixed(entry, file, next.data(), bytes, MSG_WAITALL | MSG_NOSIGNAL, 0,
                                  buffer);
    } else if (fixed() && sends_) {
      io_uring_prep_write_fixed(entry, file, next.data(), bytes, 0, static_cast<int>(buffer));
    } else if (fixed()) {
      io_uring_prep_read_fixed(entry, file, next.data(), bytes, 0, static_cast<int>(buffer));
    } else if (sends_) {
      io_uring_prep_send(entry, file, next.data(), bytes, MSG_WAITALL | MSG_NOSIGNAL);
    } else {
      io_uring_prep_recv(entry, file, next.data(), bytes, MSG_WAITALL);
    }
  }

  Status Ended(const io_uring_cqe& completion) {
    if ((completion.flags & IORING_CQE_F_NOTIF) != 0) {
      --notifications_;
      return OkStatus();
    }
    if ((completion.flags & IORING_CQE_F_MORE) != 0) ++notifications_;
    const auto index = static_cast<unsigned>(completion.user_data);
    Lane& lane = lanes_[index];
    --lane.under_way;
    // One that moved less than all of its bytes ends its chain: the rest of it is cancelled, and
    // the next chain begins where it stopped.
    const int moved = completion.res;
    const bool again = moved == -ECANCELED || moved == -EINTR;
    if (!again && moved <= 0) {
      return os::ErrnoStatus(moved == 0 ? ECONNRESET : -moved, "a lane of io_uring");
    }
    if (!again) lane.done += static_cast<uint64_t>(moved);
    if (lane.under_way > 0) return OkStatus();
    if (lane.done < lane.end.bytes) {
      Begin(index);
    } else {
      --open_;
    }
    return OkStatus();
  }

  const bool sends_;
  const RingWay way_;
  std::vector<Lane> lanes_;
  size_t open_;
  unsigned notifications_ = 0;  // that the kernel has let go of what it sent, still to come
  std::unique_ptr<Ring> ring_;
};

}  // namespace

Result<std::unique_ptr<StreamEngine>> MakeRingStreams(StreamDirection direction,
                                                      const std::vector<StreamEnd>& ends,
                                                      const RingWay& way) {
  auto streams = std::make_unique<RingStreams>(direction, ends, way);
  ONECOPY_RETURN_IF_ERROR(streams->MakeRing());
  return std::unique_ptr<StreamEngine>(std::move(streams));
}

}  // namespace onecopy::bench
