#include "client/lib/transfers/fold_ranges.h"

namespace onecopy::client {
namespace {

// Two ranges always are at one distance, and three may be by chance.
constexpr uint64_t kLeastRun = 4;

bool IsPlain(const RangePair& pair) {
  return pair.source.count == 1 && pair.destination.count == 1 && pair.source.bytes > 0 &&
         pair.source.bytes == pair.destination.bytes;
}

// Whether `next` is as `pair`, further on.
bool Follows(const RangePair& pair, const RangePair& next) {
  return IsPlain(next) && next.source.bytes == pair.source.bytes &&
         next.source_buffer == pair.source_buffer &&
         next.destination_buffer == pair.destination_buffer &&
         next.source.offset >= pair.source.offset &&
         next.source.offset - pair.source.offset >= pair.source.bytes &&
         next.destination.offset >= pair.destination.offset &&
         next.destination.offset - pair.destination.offset >= pair.destination.bytes;
}

// How many pairs from the first on are one strided pair.
uint64_t RunLength(std::span<const RangePair> pairs) {
  if (pairs.size() < kLeastRun || !IsPlain(pairs[0]) || !Follows(pairs[0], pairs[1])) return 1;
  const uint64_t from = pairs[1].source.offset - pairs[0].source.offset;
  const uint64_t to = pairs[1].destination.offset - pairs[0].destination.offset;
  uint64_t length = 2;
  while (length < pairs.size() && Follows(pairs[length - 1], pairs[length]) &&
         pairs[length].source.offset - pairs[length - 1].source.offset == from &&
         pairs[length].destination.offset - pairs[length - 1].destination.offset == to) {
    ++length;
  }
  return length;
}

// Whether so many ranges lie as far from the one before as that does from its own that folding may
// be worth it: a look at two columns, where making pairs of them would take far longer.
bool MayFold(const EqualRanges& ranges) {
  const auto& [bytes, from, to, from_buffers, to_buffers] = ranges;
  size_t alike = 0;
  for (size_t i = 2; i < from.size(); ++i) {
    const bool steady = from[i] - from[i - 1] == from[i - 1] - from[i - 2] &&
                        to[i] - to[i - 1] == to[i - 1] - to[i - 2];
    alike += steady ? 1 : 0;
  }
  return alike >= from.size() / 4;
}

}  // namespace

std::vector<RangePair> FoldRanges(const EqualRanges& ranges) {
  if (!MayFold(ranges)) return {};
  std::vector<RangePair> pairs(ranges.sources.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = {{ranges.sources[i], ranges.bytes}, {ranges.destinations[i], ranges.bytes}};
    if (!ranges.source_buffers.empty()) pairs[i].source_buffer = ranges.source_buffers[i];
    if (!ranges.destination_buffers.empty()) {
      pairs[i].destination_buffer = ranges.destination_buffers[i];
    }
  }
  return FoldRanges(pairs);
}

std::vector<RangePair> FoldRanges(std::span<const RangePair> pairs) {
  // Counted before any is copied: there may be very many, and mostly nothing to fold.
  size_t count = 0;
  for (size_t i = 0; i < pairs.size(); ++count) {
    if (count + 1 > pairs.size() / 2) return {};
    const uint64_t length = RunLength(pairs.subspan(i));
    i += length < kLeastRun ? 1 : length;
  }
  std::vector<RangePair> folded;
  folded.reserve(count);
  for (size_t i = 0; i < pairs.size();) {
    const uint64_t length = RunLength(pairs.subspan(i));
    folded.push_back(pairs[i]);
    if (length < kLeastRun) {
      ++i;
      continue;
    }
    RangePair& run = folded.back();
    run.source.stride = pairs[i + 1].source.offset - pairs[i].source.offset;
    run.destination.stride = pairs[i + 1].destination.offset - pairs[i].destination.offset;
    run.source.count = run.destination.count = length;
    i += length;
  }
  return folded;
}

}  // namespace onecopy::client
