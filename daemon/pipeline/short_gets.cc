#include "daemon/pipeline/short_gets.h"

#include <cassert>
#include <utility>

namespace onecopy::pipeline {

ShortGets::ShortGets(Source source, RegionRef into, ShortOutcomes::Failed failed)
    : source_(std::move(source)), into_(std::move(into)), outcomes_(std::move(failed)) {}

Status ShortGets::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  assert(from_offset >= source_.begin);
  assert(to_offset <= into_->bytes() && bytes <= into_->bytes() - to_offset);
  batch_.push_back({.channel = source_.channel,
                    .key = &source_.key,
                    .key_offset = from_offset - source_.begin,
                    .into = {into_, to_offset, bytes},
                    .all_steps = true});
  ++begun_;
  return OkStatus();
}

uint64_t ShortGets::Mark() {
  if (batch_.empty()) return begun_;
  const uint64_t first = begun_ - batch_.size();
  // This route stays while something of it is under way.
  source_.connection->executor().Post([this, first, batch = std::exchange(batch_, {})] {
    for (uint64_t i = 0; i < batch.size(); ++i) {
      auto done = [this, number = first + i](const Status& status, const StepList& steps,
                                             unsigned) {
        if (status.ok() && steps.get() != std::exchange(seen_, steps.get())) steps_->Set(steps);
        outcomes_.Ended(number, status);
      };
      source_.connection->Get(batch[i], std::move(done));
    }
  });
  return begun_;
}

}  // namespace onecopy::pipeline
