#include "daemon/pipeline/chained_route.h"

#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::pipeline {
namespace {

// Copy engines are slower where lines of the cache are shared.
constexpr uint64_t kGrain = 256;

}  // namespace

ChainedRoute::ChainedRoute(std::shared_ptr<SmallCopyRoute> first,
                           std::shared_ptr<SmallCopyRoute> second, uint64_t between_bytes,
                           Failed failed)
    : first_(std::move(first)),
      second_(std::move(second)),
      between_bytes_(between_bytes),
      failed_(std::move(failed)) {
  NoteSteps();
}

Status ChainedRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  if (bytes > between_bytes_) {
    return {Code::kInternal, reasons::kRangeOutOfBuffer,
            "a small transfer is longer than its staging memory and was not made",
            "please report this bug: it should have been refused earlier"};
  }
  At(begun_++) = {from_offset, to_offset, bytes};
  return OkStatus();
}

uint64_t ChainedRoute::Mark() {
  Advance();
  return begun_;
}

bool ChainedRoute::Reached(uint64_t mark, Status* failure) {
  Advance();
  if (ended_ < mark) return false;
  if (mark > first_failed_) *failure = failure_;
  return true;
}

void ChainedRoute::Cancel() {
  cancelled_.store(true);
  first_->Cancel();
  second_->Cancel();
}

void ChainedRoute::Advance() {
  if (failure_.ok() && cancelled_.load() && ended_ < begun_) {
    failure_ = {Code::kAborted, reasons::kCancelled,
                "the copy was stopped: its buffer, right, session or node is gone"};
  }
  EndSecond();
  EndFirst();
  BeginFirst();
}

void ChainedRoute::EndSecond() {
  for (; ended_ < in_second_; ++ended_) {
    const Copy& copy = At(ended_);
    if (!copy.under_way) continue;
    Status failure;
    if (!second_->Reached(copy.mark, &failure)) return;
    if (failure.ok()) {
      NoteSteps();
    } else {
      Fail(ended_, failure);
    }
  }
}

void ChainedRoute::EndFirst() {
  const uint64_t before = in_second_;
  bool any = false;
  for (; in_second_ < in_first_; ++in_second_) {
    Copy& copy = At(in_second_);
    if (!copy.under_way) continue;
    Status outcome;
    if (!first_->Reached(copy.mark, &outcome)) break;
    if (outcome.ok() && !failure_.ok()) outcome = failure_;
    if (outcome.ok()) outcome = second_->Begin(copy.between, copy.to, copy.bytes);
    copy.under_way = outcome.ok();
    any = any || copy.under_way;
    if (!outcome.ok()) Fail(in_second_, outcome);
  }
  if (!any) return;
  const uint64_t mark = second_->Mark();
  for (uint64_t i = before; i < in_second_; ++i) At(i).mark = mark;
  if (cancelled_.load()) second_->Cancel();  // it came too early for these
}

void ChainedRoute::BeginFirst() {
  const uint64_t before = in_first_;
  bool any = false;
  for (; in_first_ < begun_; ++in_first_) {
    Copy& copy = At(in_first_);
    const std::optional<uint64_t> room = FindRoom(copy.bytes);
    if (!room) break;
    const Status begun = failure_.ok() ? first_->Begin(copy.from, *room, copy.bytes) : failure_;
    copy.between = *room;
    copy.under_way = begun.ok();
    if (!begun.ok()) {
      Fail(in_first_, begun);
      continue;
    }
    next_ = *room + (copy.bytes + kGrain - 1) / kGrain * kGrain;
    any = true;
  }
  if (!any) return;
  const uint64_t mark = first_->Mark();
  for (uint64_t i = before; i < in_first_; ++i) At(i).mark = mark;
  if (cancelled_.load()) first_->Cancel();  // it came too early for these
}

// Parts are taken and given back in the same order, so what is in use is one piece, which may go
// round the end of the memory. Then it never meets its own beginning: full and empty differ.
std::optional<uint64_t> ChainedRoute::FindRoom(uint64_t bytes) const {
  if (ended_ == in_first_) return 0;
  const uint64_t used_from = copies_[ended_ % kMaxUnderWay].between;
  if (next_ <= used_from) {
    return next_ + bytes < used_from ? std::optional(next_) : std::nullopt;
  }
  if (next_ + bytes <= between_bytes_) return next_;
  return bytes < used_from ? std::optional<uint64_t>(0) : std::nullopt;
}

void ChainedRoute::Fail(uint64_t number, const Status& why) {
  if (number < first_failed_) first_failed_ = number;
  if (!failure_.ok()) return;
  failure_ = why;
  if (failed_) std::exchange(failed_, nullptr)(why);
}

void ChainedRoute::NoteSteps() {
  StepList first = first_->steps()->Get();
  StepList second = second_->steps()->Get();
  if (first == nullptr || second == nullptr) return;
  if (first == first_steps_ && second == second_steps_) return;
  std::vector<Step> both(*first);
  both.insert(both.end(), second->begin(), second->end());
  steps_->Set(std::make_shared<const std::vector<Step>>(std::move(both)));
  first_steps_ = std::move(first);
  second_steps_ = std::move(second);
}

}  // namespace onecopy::pipeline
