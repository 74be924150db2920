#include "client/nixl/order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

using Pair = std::pair<const Place*, const Place*>;  // source, destination

Status CheckPiece(const Piece& piece) {
  if (piece.address >= piece.place->address && !piece.place->buffer.empty()) return OkStatus();
  return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
          "a descriptor does not lie in the memory that was registered for it (buffer " +
              piece.place->buffer + ")",
          "register all of the memory that the transfer names"};
}

// What goes from one buffer to another, in the order in which it was named.
struct Group {
  Pair pair;
  std::vector<RangePair> ranges;

  // Adds the range, or makes the one before it longer.
  void Add(uint64_t from, uint64_t to, uint64_t bytes) {
    if (!ranges.empty()) {
      RangePair& last = ranges.back();
      if (last.source.offset + last.source.bytes == from &&
          last.destination.offset + last.destination.bytes == to) {
        last.source.bytes += bytes;
        last.destination.bytes += bytes;
        return;
      }
    }
    ranges.push_back({{from, bytes}, {to, bytes}});
  }
};

Endpoint EndAt(const Place& place) { return {.node = place.node, .buffer = place.buffer}; }

// One request after another, each with as many groups as it takes.
class RequestMaker {
 public:
  explicit RequestMaker(const Policy& policy) : policy_(policy) {}

  void Add(const Group& group) {
    const auto& [from, to] = group.pair;
    for (size_t first = 0; first < group.ranges.size();) {
      if (!made_.empty() && !HasRoomFor(*from, *to)) Finish();
      if (sources_.empty()) Begin(*from, *to);
      const uint32_t source = Number(from, sources_, made_.back().more_sources);
      const uint32_t destination = Number(to, destinations_, made_.back().more_destinations);
      std::vector<RangePair>& ranges = made_.back().ranges;
      const size_t count = std::min(group.ranges.size() - first, kMaxRanges - ranges.size());
      for (size_t i = first; i < first + count; ++i) {
        ranges.push_back(group.ranges[i]);
        ranges.back().source_buffer = source;
        ranges.back().destination_buffer = destination;
      }
      ++pairs_;
      first += count;
    }
  }

  std::vector<TransferRequest> Take() {
    if (!sources_.empty()) Finish();
    return std::move(made_);
  }

 private:
  using Numbers = std::map<const Place*, uint32_t>;

  // Of the request that was begun last.
  bool HasRoomFor(const Place& from, const Place& to) const {
    if (sources_.empty()) return true;
    const TransferRequest& last = made_.back();
    return last.ranges.size() < kMaxRanges && pairs_ < kMaxBuffers &&
           sources_.size() < kMaxBuffers && destinations_.size() < kMaxBuffers &&
           last.source.node == from.node && last.destination.node == to.node;
  }

  void Begin(const Place& from, const Place& to) {
    made_.push_back({.source = EndAt(from), .destination = EndAt(to), .policy = policy_});
    sources_[&from] = destinations_[&to] = 0;
  }

  static uint32_t Number(const Place* place, Numbers& numbers, std::vector<Endpoint>& more) {
    const auto [at, is_new] = numbers.emplace(place, static_cast<uint32_t>(numbers.size()));
    if (is_new) more.push_back(EndAt(*place));
    return at->second;
  }

  void Finish() {
    TransferRequest& last = made_.back();
    if (last.ranges.size() == 1) {  // said at its ends, so that a small one may go by the ring
      const RangePair only = last.ranges[0];
      last.source.offset_bytes = only.source.offset;
      last.source.bytes = only.source.bytes;
      last.destination.offset_bytes = only.destination.offset;
      last.ranges.clear();
    }
    sources_.clear();
    destinations_.clear();
    pairs_ = 0;
  }

  const Policy& policy_;
  std::vector<TransferRequest> made_;
  Numbers sources_;  // of the last; empty: it is finished
  Numbers destinations_;
  size_t pairs_ = 0;
};

}  // namespace

Result<std::vector<TransferRequest>> MakeRequests(abi::Operation operation,
                                                  const std::vector<Piece>& local,
                                                  const std::vector<Piece>& remote,
                                                  const Policy& policy) {
  if (local.size() != remote.size()) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(local.size()) + " descriptors here and " +
                      std::to_string(remote.size()) + " there",
                  "name equally many on both sides");
  }
  const bool write = operation == abi::Operation::kWrite;
  std::vector<Group> groups;
  std::map<Pair, size_t> numbers;  // of groups
  size_t group = 0;                // that of the last piece
  for (size_t i = 0; i < local.size(); ++i) {
    const Piece& source = write ? local[i] : remote[i];
    const Piece& destination = write ? remote[i] : local[i];
    if (source.bytes != destination.bytes) {
      return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                    "descriptor " + std::to_string(i) + " has " + std::to_string(source.bytes) +
                        " bytes at the source and " + std::to_string(destination.bytes) +
                        " at the destination",
                    "give both the same length");
    }
    if (source.bytes == 0) continue;
    ONECOPY_RETURN_IF_ERROR(CheckPiece(source));
    ONECOPY_RETURN_IF_ERROR(CheckPiece(destination));
    const Pair pair = {source.place, destination.place};
    if (groups.empty() || groups[group].pair != pair) {
      group = numbers.emplace(pair, groups.size()).first->second;
      if (group == groups.size()) groups.push_back({pair, {}});
    }
    groups[group].Add(source.address - source.place->address,
                      destination.address - destination.place->address, source.bytes);
  }
  RequestMaker requests(policy);
  for (const Group& each : groups) requests.Add(each);
  return requests.Take();
}

}  // namespace onecopy::nixl
