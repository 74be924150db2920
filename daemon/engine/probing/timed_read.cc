#include "daemon/engine/probing/timed_read.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/move.h"
#include "transport/core/duration.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kSmallest = 64;
constexpr int kSmallReads = 4;  // the first of which may have to wake things up

// On the connection's executor.
class TimedRead final : public std::enable_shared_from_this<TimedRead> {
 public:
  TimedRead(TimedReadOrder order, UniqueFunction<void(TimedReadResult)> done)
      : order_(std::move(order)), done_(std::move(done)) {
    chunk_ = std::clamp(order_.connection->chunk_bytes(), kLeastChunkBytes,
                        order_.most_bytes + kLeastChunkBytes);
  }

  void ReadSmall() {
    const auto began = os::Clock::now();
    Get(0, std::min(kSmallest, order_.into.bytes),
        [self = shared_from_this(), began](Status status) {
          const double seconds = ToSeconds(os::Clock::now() - began);
          self->result_.seconds += seconds;
          double& least = self->result_.latency_seconds;
          least = self->small_reads_++ == 0 ? seconds : std::min(least, seconds);
          if (!status.ok() || self->order_.into.bytes == 0) return self->End(std::move(status));
          if (self->small_reads_ < kSmallReads) return self->ReadSmall();
          self->began_ = os::Clock::now();
          self->Fill();
        });
  }

 private:
  void Get(uint64_t at, uint64_t bytes, UniqueFunction<void(Status)> landed) {
    GetRequest get;
    get.channel = order_.channel;
    get.key = order_.key.get();
    get.key_offset = order_.into.offset + at;
    get.into = {order_.into.region, order_.into.offset + at, bytes};
    get.lane = order_.lane;
    order_.connection->Get(
        get, [landed = std::move(landed)](Status status, const StepList&, unsigned) mutable {
          landed(std::move(status));
        });
  }

  bool Enough() const {
    return !failure_.ok() || submitted_ >= order_.most_bytes ||
           os::Clock::now() - began_ >= order_.most_time;
  }

  void Fill() {
    // A get may complete before it returns.
    if (std::exchange(filling_, true)) return;
    while (in_flight_ < order_.depth && !Enough()) {
      const uint64_t bytes = std::min(chunk_, order_.into.bytes - at_);
      const uint64_t at = at_;
      at_ = at + bytes == order_.into.bytes ? 0 : at + bytes;
      submitted_ += bytes;
      ++in_flight_;
      Get(at, bytes, [self = shared_from_this(), bytes](Status status) {
        --self->in_flight_;
        if (status.ok()) {
          self->completed_ += bytes;
        } else if (self->failure_.ok()) {
          self->failure_ = std::move(status);
        }
        self->Fill();
      });
    }
    filling_ = false;
    if (in_flight_ == 0 && done_) {
      const double seconds = ToSeconds(os::Clock::now() - began_);
      result_.seconds += seconds;
      result_.landed = std::min(submitted_, order_.into.bytes);
      // Less what a single get would have taken for nothing.
      const double moving = std::max(seconds - result_.latency_seconds, seconds / 2);
      if (moving > 0) result_.bytes_per_second = static_cast<double>(completed_) / moving;
      End(failure_);
    }
  }

  void End(Status status) {
    result_.status = std::move(status);
    order_.into = {};
    std::exchange(done_, nullptr)(result_);
  }

  TimedReadOrder order_;
  UniqueFunction<void(TimedReadResult)> done_;
  uint64_t chunk_ = 0;
  TimedReadResult result_;
  int small_reads_ = 0;
  os::Clock::time_point began_;
  uint64_t at_ = 0;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  unsigned in_flight_ = 0;
  bool filling_ = false;
  Status failure_;
};

}  // namespace

void StartTimedRead(TimedReadOrder order, UniqueFunction<void(TimedReadResult)> done) {
  Executor& executor = order.connection->executor();
  auto read = std::make_shared<TimedRead>(std::move(order), std::move(done));
  executor.Post([read] { read->ReadSmall(); });
}

}  // namespace onecopy::engine
