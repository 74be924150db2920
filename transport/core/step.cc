#include "transport/core/step.h"

#include <algorithm>

namespace onecopy {

void StepTally::Add(const StepList& list, uint64_t bytes) {
  if (list == nullptr || bytes == 0) return;
  if (list != last_) {
    last_ = list;
    last_at_.clear();
    for (const Step& step : *list) {
      auto same = [&](size_t at) { return entries_[at].step == step; };
      size_t at = 0;
      // A list may hold equal steps (two passes of one kind): each needs an entry of its own.
      while (at < entries_.size() &&
             (!same(at) || std::find(last_at_.begin(), last_at_.end(), at) != last_at_.end())) {
        ++at;
      }
      if (at == entries_.size()) entries_.push_back({step, 0});
      last_at_.push_back(at);
    }
  }
  for (const size_t at : last_at_) entries_[at].bytes += bytes;
}

}  // namespace onecopy
