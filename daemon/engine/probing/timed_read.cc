#include "daemon/engine/probing/timed_read.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/move.h"
#include "transport/core/base/duration.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kSmallest = 64;
constexpr int kSmallReads = 4;  // the first of which may have to wake things up

// On the connection's executor.
class TimedRead final : public std::enable_shared_from_this<TimedRead> {
 public:
  TimedRead(TimedReadParams params, UniqueFunction<void(TimedReadResult)> done)
      : params_(std::move(params)), done_(std::move(done)) {
    chunk_ = std::clamp(params_.connection->chunk_bytes(), kMinChunkBytes,
                        params_.most_bytes + kMinChunkBytes);
  }

  void ReadSmall() {
    const auto began = os::Clock::now();
    Get(0, std::min(kSmallest, params_.into.bytes),
        [self = shared_from_this(), began](Status status) {
          const double seconds = ToSeconds(os::Clock::now() - began);
          self->result_.seconds += seconds;
          double& least = self->result_.latency_seconds;
          least = self->small_reads_++ == 0 ? seconds : std::min(least, seconds);
          if (!status.ok() || self->params_.into.bytes == 0) return self->End(std::move(status));
          if (self->small_reads_ < kSmallReads) return self->ReadSmall();
          self->began_ = os::Clock::now();
          self->Fill();
        });
  }

 private:
  void Get(uint64_t at, uint64_t bytes, UniqueFunction<void(Status)> landed) {
    GetRequest get;
    get.channel = params_.channel;
    get.key = params_.key.get();
    get.key_offset = params_.into.offset + at;
    get.into = {params_.into.region, params_.into.offset + at, bytes};
    get.lane = params_.lane;
    params_.connection->Get(
        get, [landed = std::move(landed)](Status status, const StepList&, unsigned) mutable {
          landed(std::move(status));
        });
  }

  bool Enough() const {
    return !failure_.ok() || submitted_ >= params_.most_bytes ||
           os::Clock::now() - began_ >= params_.most_time;
  }

  void Fill() {
    // A get may complete before it returns.
    if (std::exchange(filling_, true)) return;
    while (in_flight_ < params_.depth && !Enough()) {
      const uint64_t bytes = std::min(chunk_, params_.into.bytes - at_);
      const uint64_t at = at_;
      at_ = at + bytes == params_.into.bytes ? 0 : at + bytes;
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
      result_.landed = std::min(submitted_, params_.into.bytes);
      // Less what a single get would have taken for nothing.
      const double moving = std::max(seconds - result_.latency_seconds, seconds / 2);
      if (moving > 0) result_.bytes_per_second = static_cast<double>(completed_) / moving;
      End(failure_);
    }
  }

  void End(Status status) {
    result_.status = std::move(status);
    params_.into = {};
    std::exchange(done_, nullptr)(result_);
  }

  TimedReadParams params_;
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

void StartTimedRead(TimedReadParams params, UniqueFunction<void(TimedReadResult)> done) {
  Executor& executor = params.connection->executor();
  auto read = std::make_shared<TimedRead>(std::move(params), std::move(done));
  executor.Post([read] { read->ReadSmall(); });
}

}  // namespace onecopy::engine
