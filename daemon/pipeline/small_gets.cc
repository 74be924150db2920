#include "daemon/pipeline/small_gets.h"

#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::pipeline {

// Only the connection's thread uses this, except `outcomes`.
struct SmallGets::Shared : std::enable_shared_from_this<Shared> {
  Shared(std::shared_ptr<Connection> connection, Explain explain, SmallOutcomes::Failed failed)
      : connection(std::move(connection)),
        explain(std::move(explain)),
        outcomes(std::move(failed)) {}

  const std::shared_ptr<Connection> connection;
  Explain explain;  // until it is asked
  SmallOutcomes outcomes;
  std::vector<uint64_t> denied;  // gets that wait to be told why
  Status why;                    // that was told
  const void* seen = nullptr;    // the steps that the last get took

  void Ended(uint64_t number, const Status& status) {
    if (status.ok() || status.reason() != reasons::kAccessDenied) {
      return outcomes.Ended(number, status);
    }
    if (!why.ok()) return outcomes.Ended(number, why);
    if (!explain && denied.empty()) return outcomes.Ended(number, status);  // unknown
    denied.push_back(number);
    if (!explain) return;
    std::exchange(explain, nullptr)(status, [self = shared_from_this()](Status said) {
      self->connection->executor().Post(
          [self, said = std::move(said)]() mutable { self->Told(std::move(said)); });
    });
  }
  void Told(Status said) {
    if (why.ok()) why = std::move(said);
    for (const uint64_t number : std::exchange(denied, {})) outcomes.Ended(number, why);
  }
};

SmallGets::SmallGets(Source source, RegionRef into, Explain explain, SmallOutcomes::Failed failed)
    : source_(std::move(source)),
      into_(std::move(into)),
      shared_(std::make_shared<Shared>(source_.connection, std::move(explain), std::move(failed))) {
}

Status SmallGets::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  if (from_offset < source_.begin || !CheckWithin({to_offset, bytes}, into_->bytes(), "").ok()) {
    return {Code::kInternal, reasons::kRangeOutOfBuffer,
            "a small transfer reaches outside its buffer and was not made",
            "please report this bug: it should have been refused earlier"};
  }
  batch_.push_back({.channel = source_.channel,
                    .key = &source_.key,
                    .key_offset = from_offset - source_.begin,
                    .into = {into_, to_offset, bytes},
                    .flow = source_.flow});
  ++begun_;
  return OkStatus();
}

uint64_t SmallGets::Mark() {
  if (batch_.empty()) return begun_;
  const uint64_t first = begun_ - batch_.size();
  // This route, and so the key, stays while something of it is under way.
  source_.connection->executor().Post(
      [shared = shared_, steps_of = steps_, first, batch = std::exchange(batch_, {})] {
        for (uint64_t i = 0; i < batch.size(); ++i) {
          auto done = [shared, steps_of, number = first + i](const Status& status,
                                                             const StepList& steps, unsigned) {
            if (status.ok() && steps.get() != std::exchange(shared->seen, steps.get())) {
              steps_of->Set(steps);
            }
            shared->Ended(number, status);
          };
          shared->connection->Get(batch[i], std::move(done));
        }
      });
  return begun_;
}

bool SmallGets::Reached(uint64_t mark, Status* failure) {
  return shared_->outcomes.Reached(mark, failure);
}

void SmallGets::Cancel() {
  source_.connection->CancelGets(source_.channel);
  // Nobody needs to be told any more why the key is not good.
  source_.connection->executor().Post([shared = shared_] {
    shared->explain = nullptr;
    shared->Told(
        {Code::kAborted, reasons::kCancelled,
         "the copy from the other node was stopped: its buffer, right, session or node is gone"});
  });
}

}  // namespace onecopy::pipeline
