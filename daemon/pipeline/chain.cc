#include "daemon/pipeline/chain.h"

#include <cassert>
#include <utility>

namespace onecopy::pipeline {

Chain::Chain(Executor& executor, Places places, std::vector<Stage> stages)
    : executor_(executor),
      places_(std::move(places)),
      sources_{places_.source.get()},
      stages_(std::move(stages)),
      moving_(stages_.size()),
      tallies_(stages_.size()) {
  for (const auto& between : places_.between) {
    sources_.push_back(between.get());
    sinks_.push_back(between.get());
  }
  sinks_.push_back(places_.destination.get());
  assert(sources_.size() == stages_.size() && sinks_.size() == stages_.size());
}

void Chain::Start(Done done) {
  executor_.Post([self = shared_from_this(), done = std::move(done)]() mutable {
    self->self_ = self;
    self->done_ = std::move(done);
    self->started_ = self->last_move_ = Clock::now();
    const auto changed = [chain = self.get()](Status status) {
      if (!status.ok()) chain->Fail(std::move(status));
      chain->Pump();
    };
    self->places_.source->Begin(changed);
    for (Sink* sink : self->sinks_) sink->Begin(changed);
    self->Pump();
  });
}

void Chain::Stop(Status why) {
  executor_.Post([self = shared_from_this(), why = std::move(why)]() mutable {
    if (self->self_ == nullptr || self->finishing_) return;
    self->Fail(std::move(why));
    self->FinishIfIdle();
  });
}

// Stages further down go first: what they take makes room for those above.
void Chain::Pump() {
  if (self_ == nullptr || finishing_) return;
  pump_again_ = true;
  if (pumping_) return;
  pumping_ = true;
  while (std::exchange(pump_again_, false)) {
    for (size_t stage = stages_.size(); stage-- > 0;) {
      while (StartMove(stage)) {
      }
    }
  }
  pumping_ = false;
  FinishIfIdle();
}

bool Chain::StartMove(size_t stage) {
  if (!failure_.ok() || moving_[stage] >= stages_[stage].depth) return false;
  std::optional<Chunk> from = sources_[stage]->Peek();
  if (!from) return false;
  if (stage == 0 && !MayTake(from->bytes)) return false;
  const std::optional<Chunk> to = sinks_[stage]->Reserve(from->offset, from->bytes);
  if (!to) return false;
  from->bytes = to->bytes;
  sources_[stage]->Take(from->bytes);
  if (stage == 0 && pace_ != nullptr) paid_ -= from->bytes;
  ++moving_[stage];
  ++moving_total_;
  stages_[stage].mover->Move(*from, *to, [this, stage, from = *from, to = *to](Moved moved) {
    EndMove(stage, from, to, std::move(moved));
  });
  return true;
}

bool Chain::MayTake(uint64_t bytes) {
  // Of those who find no turn, one asks before what the others have spent has moved.
  constexpr std::chrono::milliseconds kAskAgain{500};
  if (pace_ == nullptr) return true;
  if (held()) return false;
  if (bytes <= paid_) return true;
  const auto when = pace_->Spend(bytes - paid_);
  if (when) paid_ = bytes;
  const Clock::time_point now = Clock::now();
  if (when && *when <= now) return true;
  held_ = was_held_ = true;
  held_since_ = now;
  pace_->At(when.value_or(now + kAskAgain), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr) self->executor_.Post([self] { self->GoOn(); });
  });
  return false;
}

void Chain::GoOn() {
  if (self_ == nullptr || finishing_) return;
  held_seconds_ += std::chrono::duration<double>(Clock::now() - held_since_).count();
  held_ = false;
  Pump();
}

void Chain::EndMove(size_t stage, const Chunk& from, const Chunk& to, Moved moved) {
  --moving_[stage];
  --moving_total_;
  last_move_ = Clock::now();
  if (!moved.status.ok()) {
    Fail(std::move(moved.status));
  } else {
    if (moved.steps != nullptr) tallies_[stage].Add(moved.steps, from.bytes);
    for (const auto& [steps, bytes] : moved.step_bytes) tallies_[stage].Add(steps, bytes);
    if (moved.lane >= 0) CountLane(static_cast<unsigned>(moved.lane), from.bytes);
    for (const auto& [lane, bytes] : moved.lane_bytes) CountLane(lane, bytes);
    if (stage + 1 == stages_.size()) bytes_done_.fetch_add(from.bytes, std::memory_order_relaxed);
    sources_[stage]->Release(from);
    sinks_[stage]->Fill(to);
    if (stage + 1 == stages_.size()) {
      arrived_.store(places_.destination->arrived(), std::memory_order_relaxed);
    }
  }
  Pump();
}

void Chain::CountLane(unsigned lane, uint64_t bytes) {
  if (lane_bytes_.size() <= lane) lane_bytes_.resize(lane + 1);
  lane_bytes_[lane] += bytes;
}

void Chain::Fail(Status why) {
  if (!failure_.ok() || finishing_) return;
  failure_ = std::move(why);
  for (const Stage& stage : stages_) stage.mover->Cancel();
}

void Chain::FinishIfIdle() {
  if (finishing_ || moving_total_ > 0 || pumping_) return;
  if (failure_.ok() && !places_.destination->Complete()) return;
  finishing_ = true;
  // Not from here: a place that is about to go may be the caller.
  executor_.Post([self = shared_from_this()] { self->Finish(); });
}

void Chain::Finish() {
  const std::shared_ptr<Chain> keep = std::exchange(self_, nullptr);
  if (held()) held_seconds_ += std::chrono::duration<double>(Clock::now() - held_since_).count();
  ChainReport report;
  report.arrived = places_.destination->arrived();
  places_ = {};
  report.status = failure_;
  report.bytes = bytes_done();
  for (const StepTally& tally : tallies_) {
    report.steps.insert(report.steps.end(), tally.entries().begin(), tally.entries().end());
  }
  report.lane_bytes = lane_bytes_;
  report.held_seconds = held_seconds_;
  report.seconds = std::chrono::duration<double>(last_move_ - started_).count();
  std::exchange(done_, nullptr)(std::move(report));
}

}  // namespace onecopy::pipeline
