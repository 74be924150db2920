#include "client/lib/ring/ring_move.h"

#include <algorithm>
#include <span>

#include "transport/core/ranges/overlap.h"
#include "transport/ring/layout.h"

namespace onecopy::client {
namespace {

// From the first byte of any piece to the last, in the buffer of this end. Nothing where that goes
// beyond the end's own range, or all numbers.
std::optional<ByteRange> HullOf(const Endpoint& end, std::span<const uint64_t> offsets,
                                uint64_t bytes) {
  const auto [first, last] = std::minmax_element(offsets.begin(), offsets.end());
  uint64_t to = 0;
  uint64_t base = end.offset_bytes.value_or(0);
  if (__builtin_add_overflow(*last, bytes, &to) || (end.bytes && to > *end.bytes)) {
    return std::nullopt;
  }
  if (__builtin_add_overflow(base, to, &to)) return std::nullopt;
  base += *first;
  return ByteRange{base, to - base};
}

std::optional<RingMove> Many(const TransferRequest& request) {
  const EqualRanges& ranges = *request.equal_ranges;
  const auto from = HullOf(request.source, ranges.sources, ranges.bytes);
  const auto to = HullOf(request.destination, ranges.destinations, ranges.bytes);
  if (!from || !to || !AreApart(ranges.destinations, ranges.bytes)) return std::nullopt;
  const uint64_t pieces = ranges.sources.size();
  return RingMove{*from, *to, pieces * ranges.bytes, pieces};
}

std::optional<RingMove> OneBy(const Route& route, const TransferRequest& request) {
  const uint64_t from = request.source.offset_bytes.value_or(0);
  const uint64_t to = request.destination.offset_bytes.value_or(0);
  uint64_t bytes = request.source.bytes.value_or(0);
  if (!request.source.bytes) {
    if (from >= route.source_bytes) return std::nullopt;
    bytes = route.source_bytes - from;
    if (request.destination.bytes.value_or(bytes) != bytes) return std::nullopt;
  }
  return RingMove{{from, bytes}, {to, bytes}, bytes, 0};
}

}  // namespace

bool AreRangesForRing(const TransferRequest& request) {
  if (!request.ranges.empty()) return false;
  if (request.equal_ranges == nullptr) return true;
  const EqualRanges& ranges = *request.equal_ranges;
  const auto only_first = [](const std::vector<uint32_t>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](uint32_t number) { return number == 0; });
  };
  return !ranges.sources.empty() && ranges.sources.size() <= ring::kMostPieces &&
         ranges.destinations.size() == ranges.sources.size() && ranges.bytes > 0 &&
         ranges.bytes <= ring::kMaxBytes && only_first(ranges.source_buffers) &&
         only_first(ranges.destination_buffers);
}

uint64_t SaidBytes(const TransferRequest& request) {
  if (request.equal_ranges != nullptr) {
    return request.equal_ranges->bytes * request.equal_ranges->sources.size();
  }
  return request.source.bytes.value_or(request.destination.bytes.value_or(0));
}

std::optional<RingMove> MoveBy(const Route& route, const TransferRequest& request) {
  const bool many = request.equal_ranges != nullptr;
  const auto move = many ? Many(request) : OneBy(route, request);
  if (!move || move->bytes > route.MostBytes(many)) return std::nullopt;
  // What this route does not allow, another right of the caller's may.
  if (!Contains(route.from, move->from) || !Contains(route.to, move->to)) return std::nullopt;
  if (route.one_buffer && Overlap(move->from, move->to)) return std::nullopt;
  return move;
}

}  // namespace onecopy::client
