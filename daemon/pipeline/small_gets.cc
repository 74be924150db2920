#include "daemon/pipeline/small_gets.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/pipeline/small_sums.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::pipeline {

// Only the connection's thread uses this, except `outcomes` and `sums`.
struct SmallGets::Shared : std::enable_shared_from_this<Shared> {
  Shared(std::shared_ptr<Connection> connection, Explain explain, SmallOutcomes::Failed failed)
      : connection(std::move(connection)),
        explain(std::move(explain)),
        outcomes(std::move(failed)) {}

  // Of a copy whose ends are compared.
  struct Sums {
    ByteRange into;
    std::optional<Result<SmallSum>> source;  // once it was told
    std::optional<SmallSum> destination;     // once the bytes have arrived
  };

  const std::shared_ptr<Connection> connection;
  Explain explain;  // until it is asked
  SmallOutcomes outcomes;
  std::vector<uint64_t> denied;  // gets that wait to be told why
  Status why;                    // that was told
  const void* seen = nullptr;    // the steps that the last get took
  std::optional<SummedEnd> end;  // where copies with sums arrive
  Status no_sums;                // why the source tells no more
  Mutex mutex;
  ByCopy<Sums> sums ONECOPY_GUARDED_BY(mutex);  // until they are taken

  void Ended(uint64_t number, const Status& status) {
    if (status.ok()) return Arrived(number);
    if (status.reason() != reasons::kAccessDenied) return outcomes.Ended(number, status);
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

  void Arrived(uint64_t number) {
    std::optional<ByteRange> into;
    {
      const MutexLock lock(mutex);
      if (const Sums* const copy = sums.Find(number); copy != nullptr) into = copy->into;
    }
    if (!into) return outcomes.Ended(number, OkStatus());
    const Result<SmallSum> sum = end->Sum(into->offset, into->bytes);
    if (!sum.ok()) return outcomes.Ended(number, sum.status());
    EndIfSummed(number, [&](Sums& copy) { copy.destination = *sum; });
  }
  // Ends the copy once both checksums are known, or the source has stopped answering.
  template <typename Change>
  void EndIfSummed(uint64_t number, const Change& change) {
    std::optional<Status> ended;
    {
      const MutexLock lock(mutex);
      Sums* const copy = sums.Find(number);
      if (copy == nullptr) return;  // it has failed, or never existed
      change(*copy);
      if (!copy->destination) return;
      if (copy->source) ended = copy->source->status();
    }
    if (!ended && !no_sums.ok()) ended = no_sums;
    if (ended) outcomes.Ended(number, *ended);
  }
  void HearSums(std::span<const std::byte> message) {
    const auto told = DecodeSumTold(message);
    if (!told) return EndSums("sent a malformed message about checksums");
    for (const SumTold& one : *told) {
      if (one.number == SumTold::kRest) return EndSums("tells no more checksums of a range");
      EndIfSummed(one.number, [&](Sums& copy) {
        if (copy.source) return;
        copy.source =
            one.sum ? Result<SmallSum>(*one.sum) : NoSum("has no checksum of what it gave");
      });
    }
  }
  static Status NoSum(const std::string& what) {
    return {Code::kUnavailable, reasons::kLinkDown, "the other node " + what, "ask again"};
  }
  void EndSums(const std::string& what) { EndSums(NoSum(what)); }
  void EndSums(const Status& gone) {
    if (no_sums.ok()) no_sums = gone;
    std::vector<uint64_t> waiting;
    {
      const MutexLock lock(mutex);
      for (const auto& [number, copy] : sums.all()) waiting.push_back(number);
    }
    for (const uint64_t number : waiting) EndIfSummed(number, [](Sums&) {});
  }
};

SmallGets::SmallGets(Source source, RegionRef into, Explain explain, SmallOutcomes::Failed failed)
    : source_(std::move(source)),
      into_(std::move(into)),
      shared_(std::make_shared<Shared>(source_.connection, std::move(explain), std::move(failed))) {
  if (!sums()) return;
  shared_->end.emplace(into_, 0);
  source_.connection->Listen(source_.sums, [shared = shared_](std::span<const std::byte> message) {
    shared->HearSums(message);
  });
}

SmallGets::~SmallGets() {
  if (!sums()) return;
  source_.connection->Ignore(source_.sums);
  // No copy is under way. Late tasks on the connection's thread do not need the memory.
  shared_->end.reset();
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

Status SmallGets::BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                              uint64_t* copy) {
  *copy = begun_;
  ONECOPY_RETURN_IF_ERROR(Begin(from_offset, to_offset, bytes));
  asked_.push_back({*copy, from_offset, bytes});
  const MutexLock lock(shared_->mutex);
  shared_->sums.Begin(*copy).into = {to_offset, bytes};
  return OkStatus();
}

Result<SmallSum> SmallGets::SumOf(uint64_t copy) {
  std::optional<Shared::Sums> sums;
  {
    const MutexLock lock(shared_->mutex);
    sums = shared_->sums.Take(copy);
  }
  if (!sums || !sums->source || !sums->destination) return NoSums();
  ONECOPY_ASSIGN_OR_RETURN(const SmallSum source, *sums->source);
  ONECOPY_RETURN_IF_ERROR(CompareSums(source, *sums->destination));
  return source;
}

uint64_t SmallGets::Mark() {
  if (batch_.empty()) return begun_;
  const uint64_t first = begun_ - batch_.size();
  // This route, and so the key, stays while something of it is under way.
  source_.connection->executor().Post([shared = shared_, steps_of = steps_, first,
                                       batch = std::exchange(batch_, {}), channel = source_.sums,
                                       asked = std::exchange(asked_, {})] {
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
    for (std::span<const SumAsked> rest(asked); !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), kMaxSums));
      const std::string text = Encode(some);
      const Status sent = shared->connection->Send(channel, std::as_bytes(std::span(text)));
      if (!sent.ok()) return shared->EndSums(sent);
      rest = rest.subspan(some.size());
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
    const Status stopped(
        Code::kAborted, reasons::kCancelled,
        "the copy from the other node was stopped: its buffer, right, session or node is gone");
    shared->explain = nullptr;
    shared->Told(stopped);
    shared->EndSums(stopped);
  });
}

}  // namespace onecopy::pipeline
