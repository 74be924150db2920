#include "daemon/pipeline/small_pushes.h"

#include <algorithm>
#include <utility>

#include "daemon/pipeline/small_sums.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::pipeline {

struct SmallPushes::Shared {
  explicit Shared(SmallOutcomes::Failed failed) : outcomes(std::move(failed)) {}

  SmallOutcomes outcomes;
  std::atomic<uint64_t> begun{0};
  // The connection's thread: nothing is answered any more.
  Status over;

  struct Sum {
    SmallSum source;
    Status compared;
  };
  Mutex mutex;
  ByCopy<Sum> sums ONECOPY_GUARDED_BY(mutex);  // until they are taken

  // Notes a mismatch of a copy with sums: its bytes have arrived, so the copy has not failed.
  bool NoteDiffering(const Pushed& pushed) {
    if (pushed.status.reason() != reasons::kChecksumMismatch) return false;
    const MutexLock lock(mutex);
    Sum* const sum = sums.Find(pushed.number);
    if (sum == nullptr) return false;
    sum->compared = pushed.status;
    return true;
  }

  void End(const Status& why) {
    if (over.ok()) over = why;
    outcomes.FailAll(begun.load(std::memory_order_acquire), over);
  }
  void Hear(std::span<const std::byte> message) {
    const std::optional<Pushed> pushed = DecodePushed(message);
    const bool rest = pushed && pushed->number == Pushed::kRest && !pushed->status.ok();
    if (rest) return End(pushed->status);
    if (!pushed || pushed->number >= begun.load(std::memory_order_acquire)) {
      return End({Code::kUnavailable, reasons::kLinkDown,
                  "the other node sent a malformed message about small transfers"});
    }
    outcomes.Ended(pushed->number, NoteDiffering(*pushed) ? OkStatus() : pushed->status);
  }
};

SmallPushes::SmallPushes(Params way, SmallOutcomes::Failed failed)
    : way_(std::move(way)),
      steps_(std::make_shared<SmallSteps>(way_.planned)),
      shared_(std::make_shared<Shared>(std::move(failed))) {
  way_.connection->Listen(way_.channel, [shared = shared_](std::span<const std::byte> message) {
    shared->Hear(message);
  });
}

SmallPushes::~SmallPushes() { way_.connection->Ignore(way_.channel); }

Status SmallPushes::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  batch_.push_back({begun_++, from_offset, to_offset, bytes, transfer_});
  return OkStatus();
}

Status SmallPushes::BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                                uint64_t* copy) {
  ONECOPY_ASSIGN_OR_RETURN(const SmallSum sum, way_.source->Sum(from_offset, bytes));
  ONECOPY_RETURN_IF_ERROR(Begin(from_offset, to_offset, bytes));
  batch_.back().sum = sum;
  *copy = batch_.back().number;
  const MutexLock lock(shared_->mutex);
  shared_->sums.Begin(*copy) = {sum, {}};
  return OkStatus();
}

Result<SmallSum> SmallPushes::SumOf(uint64_t copy) {
  std::optional<Shared::Sum> sum;
  {
    const MutexLock lock(shared_->mutex);
    sum = shared_->sums.Take(copy);
  }
  if (!sum) return NoSums();
  ONECOPY_RETURN_IF_ERROR(sum->compared);
  return sum->source;
}

uint64_t SmallPushes::Mark() {
  if (batch_.empty()) return begun_;
  // On the connection's thread, where it is known whether the other node still listens.
  way_.connection->executor().Post([shared = shared_, connection = way_.connection,
                                    channel = way_.channel, sums = way_.sums, begun = begun_,
                                    batch = std::exchange(batch_, {})] {
    shared->begun.store(begun, std::memory_order_release);
    if (!shared->over.ok()) return shared->End(shared->over);
    for (std::span<const Push> rest(batch); !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), MaxPushes(sums)));
      const std::string text = Encode(some, sums);
      const Status sent = connection->Send(channel, std::as_bytes(std::span(text)));
      if (!sent.ok()) return shared->End(sent);
      rest = rest.subspan(some.size());
    }
  });
  return begun_;
}

bool SmallPushes::Reached(uint64_t mark, Status* failure) {
  return shared_->outcomes.Reached(mark, failure);
}

void SmallPushes::Cancel() {
  way_.connection->executor().Post([shared = shared_] {
    shared->End(
        {Code::kAborted, reasons::kCancelled,
         "the copy to the other node was stopped: its buffer, right, session or node is gone"});
  });
}

}  // namespace onecopy::pipeline
