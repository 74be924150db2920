#include "transport/store/posix/trial.h"

#include <algorithm>

namespace onecopy::posix {

size_t Trial::SegmentOf(uint64_t offset) const {
  return offset < begin_ ? kSegments
                         : static_cast<size_t>(
                               std::min<uint64_t>((offset - begin_) / segment_bytes_, kSegments));
}

void Trial::Note(size_t segment, std::chrono::duration<double> time) {
  if (segment >= kSegments || seconds_[segment] > 0 || time.count() <= 0) return;
  seconds_[segment] = time.count();
  ++noted_;
  total_ += time;
}

std::optional<Trial::Ratios> Trial::Compare() const {
  if (noted_ < kSegments) return std::nullopt;
  Ratios ratios{};
  for (size_t pair = 0; pair < kPairs; ++pair) {
    const size_t first = IsFirst(2 * pair) ? 2 * pair : 2 * pair + 1;
    const size_t second = 4 * pair + 1 - first;
    ratios[pair] = seconds_[second] / seconds_[first];
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

}  // namespace onecopy::posix
