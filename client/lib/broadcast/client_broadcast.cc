#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/lib/broadcast/spread.h"
#include "client/lib/calls/call_limit.h"
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

constexpr size_t kMostDestinations = 1024;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSmall = kMiB;                      // what goes to each right from the source
constexpr uint64_t kLeastPiece = uint64_t{256} << 10;  // and what a piece is a multiple of
constexpr uint64_t kMostPiece = 256 * kMiB;
// A piece takes at least so long, or negotiating the next one would be what takes the time.
constexpr double kLeastSeconds = 0.002;
// Pieces for each destination. Each hop delays the last byte by the pieces that are under way at a
// time: all hops together by a 16th of the time.
constexpr uint64_t kPiecesForEach = 16 * client::Chain::kPiecesUnderWay;

Status Refuse(const std::string& what, const std::string& remedy) {
  return {Code::kInvalidArgument, reasons::kBadArgument, what, remedy};
}

std::string NameOf(const RemoteRange& range) { return range.buffer.node + ":" + range.buffer.name; }

bool Overlaps(const RemoteRange& a, const RemoteRange& b) {
  return a.buffer.node == b.buffer.node && a.buffer.id == b.buffer.id &&
         Overlap({a.offset, a.bytes}, {b.offset, b.bytes});
}

// A node that does not answer keeps none of the others from getting it.
bool IsAway(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded;
}

// `rate`: of the slowest hop, in bytes per second, as planned.
uint64_t ChoosePiece(uint64_t bytes, size_t destinations, double rate) {
  const auto least =
      static_cast<uint64_t>(std::min(rate * kLeastSeconds, static_cast<double>(kMostPiece)));
  const uint64_t even = bytes / (kPiecesForEach * destinations);
  const uint64_t pieces = (std::max(even, least) + kLeastPiece - 1) / kLeastPiece;
  return std::clamp(pieces * kLeastPiece, kLeastPiece, kMostPiece);
}

// Runs `work` of each number below `count`, some at a time.
void ForEach(size_t count, const std::function<void(size_t)>& work) {
  constexpr size_t kTogether = 16;
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(count, kTogether); ++i) {
    threads.emplace_back([&] {
      for (size_t each = next++; each < count; each = next++) work(each);
    });
  }
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
    // At once: a node that does not answer is waited for, and that for all of them only once.
    std::vector<Result<RemoteRange>> found(destinations.size(), RemoteRange());
    ForEach(found.size(), [&, until = CallLimit::Current()](size_t each) {
      const CallLimit limit(until);
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
    if (!found.ok() && !IsAway(found.status())) return found.status();
    Status away;
    RemoteRange range;
    if (found.ok()) {
      range = std::move(*found);
      ONECOPY_RETURN_IF_ERROR(CheckRoom(range));
      range.bytes = bytes_;
      ONECOPY_RETURN_IF_ERROR(CheckApart(range));
      away = CheckWay(range);
      if (!away.ok() && !IsAway(away)) return away;
    } else {
      away = found.status();
      range.buffer.node = destination.node;
      range.buffer.name = range.buffer.id = destination.buffer;
      range.offset = destination.offset_bytes.value_or(0);
      range.bytes = bytes_;
    }
    buffers_.push_back(std::move(range));
    away_.push_back(std::move(away));
    return OkStatus();
  }

  Status CheckRoom(const RemoteRange& range) const {
    if (range.bytes >= bytes_) return OkStatus();
    return {Code::kInvalidArgument, reasons::kSizeMismatch,
            NameOf(buffers_.front()) + " has " + std::to_string(bytes_) + " bytes, and " +
                NameOf(range) + " has room for " + std::to_string(range.bytes),
            "make a larger buffer, or name a range of the source"};
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

  // From the nearest one before it that may be read, as it is done later.
  Status CheckWay(const RemoteRange& range) {
    Status last;
    for (size_t from = buffers_.size(); from-- > 0;) {
      if (!away_[from].ok()) continue;
      TransferRequest request;
      request.source = buffers_[from].Piece(0, bytes_);
      request.destination = range.Piece(0, bytes_);
      request.policy = request_.policy;
      const Result<Plan> plan = client_.PlanTransfer(request);
      ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      if (plan.ok()) {
        const double rate = plan->estimated_bytes_per_second;
        if (rate > 0) rate_ = rate_ > 0 ? std::min(rate_, rate) : rate;
        return OkStatus();
      }
      last = plan.status();
    }
    return last;
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
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Waiter> waiter,
                           Waiter::Make(std::move(stop), request.deadline));
  const CallLimit limit(CallLimit::For(request.deadline));
  Preparation prepared(*this, request, *waiter);
  ONECOPY_RETURN_IF_ERROR(prepared.Run());
  const std::vector<size_t>& order = prepared.order();
  const Pieces pieces = {prepared.bytes(),
                         request.piece_bytes > 0
                             ? request.piece_bytes
                             : ChoosePiece(prepared.bytes(), order.size(), prepared.rate())};
  const bool direct = pieces.count() == 1 && prepared.bytes() <= kSmall;
  Spread spread(*this, request, *waiter, prepared.TakeBuffers(), pieces, direct);
  for (size_t member = 1; member < prepared.away().size(); ++member) {
    if (!prepared.away()[member].ok()) spread.SetAway(member, prepared.away()[member]);
  }
  std::vector<BroadcastCopy> by_member = spread.Run(on_update);
  std::vector<BroadcastCopy> copies(order.size());
  for (size_t i = 0; i < order.size(); ++i) copies[order[i]] = std::move(by_member[i]);
  return copies;
}

}  // namespace onecopy
