#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/lib/broadcast/spread.h"
#include "client/lib/calls/call_limit.h"
#include "client/lib/transfers/pending_transfer.h"
#include "onecopy/broadcast.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy {
namespace {

using client::CallLimit;
using client::Pieces;
using client::RemoteRange;
using client::Spread;
using client::Waiter;

using Clock = std::chrono::steady_clock;

constexpr size_t kMostDestinations = 1024;
constexpr uint64_t kMostPieces = 4096;
constexpr uint64_t kSmall = uint64_t{1} << 20;  // what is one piece, right from the source to each
constexpr uint64_t kLeastPiece = uint64_t{256} << 10;  // and what a piece is a multiple of
constexpr uint64_t kMostPiece = uint64_t{256} << 20;
// A piece takes at least so long, or negotiating the next one would be what takes the time.
constexpr double kLeastSeconds = 0.002;
// Pieces for each destination. Each hop delays the last byte by the pieces that are under way at a
// time: all hops together by a 16th of the time.
constexpr uint64_t kPiecesForEach = 16 * client::Chain::kPiecesUnderWay;
// How long a node may take to describe a buffer, or to plan.
constexpr std::chrono::seconds kLookup{5};
constexpr size_t kLookupsTogether = 64;

Status Refuse(const std::string& what, const std::string& remedy) {
  return {Code::kInvalidArgument, reasons::kBadArgument, what, remedy};
}

std::string NameOf(const RemoteRange& range) { return range.buffer.node + ":" + range.buffer.name; }

// Whether they have bytes of one memory in common, by whatever names.
bool Overlaps(const RemoteRange& a, const RemoteRange& b) {
  const auto memory = [](const BufferInfo& buffer) {
    return buffer.view_of.empty() ? buffer.id : buffer.view_of;
  };
  return a.buffer.node == b.buffer.node && memory(a.buffer) == memory(b.buffer) &&
         Overlap({a.buffer.offset_bytes + a.offset, a.bytes},
                 {b.buffer.offset_bytes + b.offset, b.bytes});
}

// A node that does not answer keeps none of the others from getting it.
bool IsAway(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

// `wanted`: 0 where it is to be chosen. `rate`: of the slowest hop, in bytes per second, as
// planned.
Pieces Divide(uint64_t bytes, uint64_t wanted, size_t destinations, double rate) {
  const uint64_t least = bytes / kMostPieces + 1;
  if (wanted > 0) return {bytes, std::clamp(wanted, std::min(least, bytes), bytes)};
  if (bytes <= kSmall) return {bytes, bytes};
  const auto slow =
      static_cast<uint64_t>(std::min(rate * kLeastSeconds, static_cast<double>(kMostPiece)));
  const uint64_t even = bytes / (kPiecesForEach * destinations);
  const uint64_t units = (std::max(even, slow) + kLeastPiece - 1) / kLeastPiece;
  const uint64_t chosen = std::clamp(units * kLeastPiece, kLeastPiece, kMostPiece);
  return {bytes, std::max(chosen, least)};
}

// Runs `work` of each number below `count`, some at a time.
void ForEach(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t each = next++; each < count; each = next++) work(each);
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < std::min(count, kLookupsTogether)) threads.emplace_back(run);
  } catch (const std::system_error&) {
    // With those that could be had.
  }
  run();
}

// The order in which the chain has the destinations: those of one node are neighbours, so that the
// payload comes to each node once; the source's node is first, then as they were named.
std::vector<size_t> OrderOf(const RemoteRange& source, const std::vector<Endpoint>& destinations) {
  std::vector<std::string> nodes = {source.buffer.node};
  std::vector<size_t> rank;
  for (const Endpoint& each : destinations) {
    auto place = std::find(nodes.begin(), nodes.end(), each.node);
    if (place == nodes.end()) place = nodes.insert(nodes.end(), each.node);
    rank.push_back(static_cast<size_t>(place - nodes.begin()));
  }
  std::vector<size_t> order(destinations.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank[a] < rank[b]; });
  return order;
}

// Everything that can be known before a byte moves.
class Preparation {
 public:
  Preparation(Client& client, const BroadcastRequest& request, const Waiter& waiter)
      : client_(client), request_(request), waiter_(waiter) {}

  Status Run() {
    if (request_.destinations.empty()) {
      return Refuse("no destination was named", "name at least one");
    }
    if (request_.destinations.size() > kMostDestinations) {
      return Refuse(std::to_string(request_.destinations.size()) + " destinations, and " +
                        std::to_string(kMostDestinations) + " are the most",
                    "call it again from one of the destinations for the others");
    }
    ONECOPY_ASSIGN_OR_RETURN(RemoteRange source,
                             client::FindRange(client_, request_.source, &waiter_));
    bytes_ = source.bytes;
    if (bytes_ == 0) return Refuse("the source has no bytes", "name a range that has some");
    buffers_.push_back(std::move(source));
    away_.emplace_back();
    std::vector<Endpoint> destinations = request_.destinations;
    for (Endpoint& each : destinations) {
      if (each.node.empty()) each.node = client_.node();
    }
    order_ = OrderOf(buffers_.front(), destinations);
    // Many at once: those that do not answer take as long as one.
    std::vector<Result<RemoteRange>> found(destinations.size(), RemoteRange());
    ForEach(found.size(), [&, until = CallLimit::Current()](size_t each) {
      const CallLimit whole(until);
      const CallLimit limit(Clock::now() + kLookup);
      found[each] = client::FindRange(client_, destinations[each], &waiter_);
    });
    ONECOPY_RETURN_IF_ERROR(waiter_.Check());
    for (const size_t each : order_) {
      ONECOPY_RETURN_IF_ERROR(Add(destinations[each], std::move(found[each])));
    }
    return OkStatus();
  }

  const std::vector<size_t>& order() const { return order_; }
  std::vector<RemoteRange> TakeBuffers() { return std::move(buffers_); }
  // By member of the chain, why it cannot be reached; OK: it can.
  const std::vector<Status>& away() const { return away_; }
  uint64_t bytes() const { return bytes_; }
  // Of the slowest hop, in bytes per second.
  double rate() const { return rate_; }

 private:
  Status Add(const Endpoint& destination, Result<RemoteRange> found) {
    if (!found.ok()) {
      if (!IsAway(found.status())) return found.status();
      RemoteRange away;
      away.buffer.node = destination.node;
      away.buffer.name = destination.buffer;
      away.offset = destination.offset_bytes.value_or(0);
      Append(std::move(away), found.status());
      return OkStatus();
    }
    RemoteRange range = std::move(*found);
    ONECOPY_RETURN_IF_ERROR(CheckRoom(range, destination.bytes.has_value()));
    range.bytes = bytes_;
    ONECOPY_RETURN_IF_ERROR(CheckApart(range));
    const Status way = CheckWay(range);
    ONECOPY_RETURN_IF_ERROR(waiter_.Check());
    if (!way.ok() && !IsAway(way)) return way;
    Append(std::move(range), way);
    return OkStatus();
  }

  void Append(RemoteRange range, const Status& away) {
    range.bytes = bytes_;
    buffers_.push_back(std::move(range));
    away_.push_back(away);
  }

  // What is named with its length is as long as the payload.
  Status CheckRoom(const RemoteRange& range, bool is_exact) const {
    if (is_exact ? range.bytes == bytes_ : range.bytes >= bytes_) return OkStatus();
    return {Code::kInvalidArgument, reasons::kSizeMismatch,
            NameOf(buffers_.front()) + " has " + std::to_string(bytes_) + " bytes, and " +
                NameOf(range) + (is_exact ? " is named with " : " has room for ") +
                std::to_string(range.bytes),
            is_exact ? "name ranges of one length"
                     : "make a larger buffer, or name a range of the source"};
  }

  Status CheckApart(const RemoteRange& range) const {
    for (const RemoteRange& other : buffers_) {
      if (!Overlaps(range, other)) continue;
      return Refuse(NameOf(range) + (&other == &buffers_.front()
                                         ? " is the source and a destination at once"
                                         : " is named twice as a destination for the same bytes"),
                    "name each buffer once");
    }
    return OkStatus();
  }

  // From the nearest one before it that answers, or from the source. What is small all take from
  // the source.
  Status CheckWay(const RemoteRange& range) {
    size_t nearest = bytes_ <= kSmall ? 0 : buffers_.size() - 1;
    while (!away_[nearest].ok()) --nearest;
    Status way = PlanFrom(nearest, range);
    if (!way.ok() && nearest > 0) way = PlanFrom(0, range);
    return way;
  }

  Status PlanFrom(size_t member, const RemoteRange& range) {
    const CallLimit limit(Clock::now() + kLookup);
    TransferRequest request;
    request.source = buffers_[member].Piece(0, bytes_);
    request.destination = range.Piece(0, bytes_);
    request.policy = request_.policy;
    ONECOPY_ASSIGN_OR_RETURN(const Plan plan, client_.PlanTransfer(request));
    const double rate = plan.estimated_bytes_per_second;
    if (rate > 0) rate_ = rate_ > 0 ? std::min(rate_, rate) : rate;
    return OkStatus();
  }

  Client& client_;
  const BroadcastRequest& request_;
  const Waiter& waiter_;
  uint64_t bytes_ = 0;
  double rate_ = 0;
  std::vector<size_t> order_;  // of the destinations in the chain
  std::vector<RemoteRange> buffers_;
  std::vector<Status> away_;
};

}  // namespace

Result<std::vector<BroadcastCopy>> Client::Broadcast(const BroadcastRequest& request,
                                                     const OnBroadcast& on_update,
                                                     std::stop_token stop) {
  if (client::PendingTransfer::IsCallbackOf(loop_.get())) {
    return Status(Code::kFailedPrecondition, reasons::kCalledFromCallback,
                  "a callback asks its own client for a broadcast, whose transfers only the "
                  "callback's thread could finish",
                  "call it on another thread");
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Waiter> waiter,
                           Waiter::Make(std::move(stop), request.deadline));
  const CallLimit limit(CallLimit::For(request.deadline));
  Preparation prepared(*this, request, *waiter);
  ONECOPY_RETURN_IF_ERROR(prepared.Run());
  const std::vector<size_t>& order = prepared.order();
  const Pieces pieces =
      Divide(prepared.bytes(), request.piece_bytes, order.size(), prepared.rate());
  const bool direct = prepared.bytes() <= kSmall && pieces.count() == 1;
  Spread spread(*this, request, *waiter, prepared.TakeBuffers(), pieces, direct);
  for (size_t member = 1; member < prepared.away().size(); ++member) {
    if (!prepared.away()[member].ok()) spread.LeaveOut(member, prepared.away()[member]);
  }
  std::vector<BroadcastCopy> by_member = spread.Run(on_update);
  std::vector<BroadcastCopy> copies(order.size());
  for (size_t i = 0; i < order.size(); ++i) copies[order[i]] = std::move(by_member[i]);
  return copies;
}

}  // namespace onecopy
