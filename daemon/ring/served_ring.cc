#include "daemon/ring/served_ring.h"

#include <algorithm>
#include <cassert>

#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::ring {
namespace {

void LetGo(Route& route) {
  route.way.reset();
  route.long_way.reset();
}

}  // namespace

ServedRing::ServedRing(DaemonEnd end, os::PassedFd socket, std::shared_ptr<Journal> journal,
                       LongWork& long_work, std::vector<CopyPiece>& pieces)
    : end_(std::move(end)),
      socket_(std::move(socket)),
      journal_(std::move(journal)),
      long_work_(long_work),
      pieces_(pieces) {
  for (uint32_t i = 0; i < kMaxUnderWay; ++i) {
    operations_[i].next = i + 1 < kMaxUnderWay ? i + 1 : kNone;
  }
}

ServedRing::~ServedRing() {
  assert(under_way_ == 0);
  for (const std::shared_ptr<Route>& route : routes_) {
    if (route != nullptr) LetGo(*route);
  }
}

void ServedRing::Install(uint32_t place, std::shared_ptr<Route> route) {
  assert(place < kRoutes && (routes_[place] == nullptr || routes_[place]->way == nullptr));
  if (routes_[place] != nullptr) {
    retired_[next_retired_++ % kRetired] = std::move(routes_[place]);
  }
  routes_[place] = std::move(route);
}

Route* ServedRing::FindRoute(uint64_t word) const {
  const uint32_t place = RoutePlace(word);
  Route* const current = place < kRoutes ? routes_[place].get() : nullptr;
  if (current != nullptr && RouteWord(current->serial, place) == word) return current;
  for (const std::shared_ptr<Route>& route : retired_) {
    if (route != nullptr && RouteWord(route->serial, place) == word) return route.get();
  }
  return nullptr;
}

void ServedRing::Remove(uint32_t place, Task done) {
  removals_.emplace_back(place, std::move(done));
  RemoveIdle();
}

void ServedRing::RemoveIdle() {
  for (size_t i = 0; i < removals_.size();) {
    const std::shared_ptr<Route>& route = routes_[removals_[i].first];
    if (route != nullptr && route->under_way > 0) {
      ++i;
      continue;
    }
    // The route stays, to say why it is none, until its place is used again.
    if (route != nullptr) LetGo(*route);
    Task done = std::move(removals_[i].second);
    removals_.erase(removals_.begin() + static_cast<ptrdiff_t>(i));
    done();
  }
}

bool ServedRing::Turn(bool draining) {
  bool any = false;
  if (!broken_) {
    const uint32_t before = last_;
    const Clock::time_point now = Clock::now();
    Request request;
    for (int i = 0; i < kMaxPerTurn && HasRoom(); ++i) {
      const DaemonEnd::Taken taken = end_.Take(&request);
      broken_ = taken == DaemonEnd::Taken::kBroken;
      if (taken != DaemonEnd::Taken::kOne) break;
      any = true;
      Serve(request, now, draining);
      if (request.pieces > 0) break;  // as much work as many others
    }
    if (any) {
      end_.GiveBack();
      MarkNew(before == kNone ? first_ : operations_[before].next);
    }
  }
  return Finish() || any;
}

bool ServedRing::HasRoom() const {
  return under_way_ < kMaxUnderWay && bytes_under_way_ < kManyBytes &&
         journal_->long_ends().HasRoomFor(under_way_ + 1);
}

void ServedRing::Serve(const Request& request, Clock::time_point now, bool draining) {
  Route* const route = FindRoute(request.route);
  const Entry entry = Read(request, route, now);
  const Outcome outcome = Check(request, entry, route, draining);
  if (outcome != Outcome::kSucceeded) return Refuse(entry, route, outcome);
  SmallCopyRoute& way = request.pieces > 0 ? route->ListWay() : route->WayFor(entry.bytes);
  uint64_t copy = 0;
  const Status begun = Begin(request, *route, way, &copy);
  if (!begun.ok()) {
    route->SetFailure(begun);
    return Refuse(entry, route, Outcome::kFailed);
  }
  const uint32_t free = free_;
  Operation& operation = operations_[free];
  free_ = operation.next;
  operation.next = kNone;
  operation.entry = entry;
  operation.route = route;
  operation.way = &way;
  operation.summed = request.sum;
  operation.copy = copy;
  if (entry.bytes > kMaxBytes) operation.start = long_work_.Begin();
  (last_ == kNone ? first_ : operations_[last_].next) = free;
  last_ = free;
  ++under_way_;
  bytes_under_way_ += entry.bytes;
  route->Begun();
}

Entry ServedRing::Read(const Request& request, const Route* route, Clock::time_point now) {
  Entry entry{.number = request.number,
              .route = route == nullptr ? 0 : route->serial,
              .from = request.from,
              .to = request.to,
              .bytes = request.bytes,
              .from_bytes = request.bytes,
              .to_bytes = request.bytes,
              .pieces = request.pieces,
              .taken = now,
              .begun = now,
              .ended = now};
  if (request.pieces == 0) return entry;
  pieces_.resize(request.pieces);
  end_.ReadList(request, pieces_);
  CopyPiece least = pieces_.front();
  CopyPiece most = least;
  for (const CopyPiece& piece : pieces_) {
    least = {std::min(least.from, piece.from), std::min(least.to, piece.to)};
    most = {std::max(most.from, piece.from), std::max(most.to, piece.to)};
  }
  // Lengths that do not fit into a word belong to no route: see Check.
  entry.from = least.from;
  entry.to = least.to;
  entry.from_bytes = most.from - least.from + request.bytes;
  entry.to_bytes = most.to - least.to + request.bytes;
  entry.bytes = request.bytes * request.pieces;
  return entry;
}

Outcome ServedRing::Check(const Request& request, const Entry& entry, const Route* route,
                          bool draining) const {
  if (request.torn) return Outcome::kTorn;
  if (route == nullptr) return Outcome::kNoRoute;
  if (route->revoked()) return Outcome::kRevoked;
  if (draining) return Outcome::kDraining;
  const bool listed = request.pieces > 0;
  if (request.sum && (listed || request.bytes > kMaxBytes || !route->sums())) {
    return Outcome::kNoSums;
  }
  const uint64_t most = listed ? kMaxBytes : route->max_bytes();
  if (request.bytes == 0 || request.bytes > most) return Outcome::kTooLong;
  if (listed && entry.bytes > route->max_list_bytes()) return Outcome::kTooLong;
  const ByteRange from{entry.from, entry.from_bytes};
  const ByteRange to{entry.to, entry.to_bytes};
  // A hull that is shorter than a piece went beyond the last number.
  if (from.bytes < request.bytes || to.bytes < request.bytes) return Outcome::kOutOfRange;
  if (!Contains(route->from, from) || !Contains(route->to, to)) return Outcome::kOutOfRange;
  if (!route->one_memory) return Outcome::kSucceeded;
  const bool overlap =
      Overlap({route->from_base + from.offset, from.bytes}, {route->to_base + to.offset, to.bytes});
  return overlap ? Outcome::kOverlap : Outcome::kSucceeded;
}

Status ServedRing::Begin(const Request& request, const Route& route, SmallCopyRoute& way,
                         uint64_t* copy) {
  way.SetTransfer(request.number);
  if (request.sum) {
    return way.BeginSummed(route.from_base + request.from, route.to_base + request.to,
                           request.bytes, copy);
  }
  if (request.pieces == 0) {
    return way.Begin(route.from_base + request.from, route.to_base + request.to, request.bytes);
  }
  for (CopyPiece& piece : pieces_) {
    piece.from += route.from_base;
    piece.to += route.to_base;
  }
  return way.BeginMany(pieces_, request.bytes);
}

void ServedRing::Refuse(Entry entry, Route* route, Outcome outcome) {
  (route == nullptr ? journal_->without_route() : route->counts).NoteFailure(outcome);
  entry.outcome = outcome;
  journal_->Write(entry);
  if (outcome == Outcome::kRevoked) {
    return end_.Complete(entry.number, 0, route->why().code(), route->why().reason());
  }
  const Status status = outcome == Outcome::kFailed ? route->failure() : StatusOf(outcome);
  end_.Complete(entry.number, 0, status.code(), status.reason());
}

// One mark for what was begun in a row on one way.
void ServedRing::MarkNew(uint32_t first) {
  const SmallCopyRoute* marked = nullptr;
  uint64_t mark = 0;
  for (uint32_t place = first; place != kNone; place = operations_[place].next) {
    SmallCopyRoute* const way = operations_[place].way;
    if (way != marked) mark = way->Mark();
    marked = way;
    operations_[place].mark = mark;
  }
}

bool ServedRing::Finish() {
  bool any = false;
  Clock::time_point now{};
  // Of which the next ones have not ended either: one for short copies, one for long ones.
  const SmallCopyRoute* waiting[2] = {};
  uint32_t before = kNone;
  for (uint32_t place = first_; place != kNone;) {
    Operation& operation = operations_[place];
    const uint32_t next = operation.next;
    SmallCopyRoute* const way = operation.way;
    const SmallCopyRoute*& waits = waiting[operation.entry.bytes > kMaxBytes];
    Status failure;
    if (way == waits || !way->Reached(operation.mark, &failure)) {
      waits = way;
      before = place;
      place = next;
      continue;
    }
    if (!any) now = Clock::now();
    any = true;
    Conclude(operation, failure, now);
    (before == kNone ? first_ : operations_[before].next) = next;
    if (last_ == place) last_ = before;
    operation.next = free_;
    free_ = place;
    place = next;
  }
  journal_->long_ends().Tell();
  end_.Publish();
  if (any && !removals_.empty()) RemoveIdle();
  return any;
}

Status ServedRing::Settle(Operation& operation, const Status& failure) {
  Route& route = *operation.route;
  Status said = failure;
  if (operation.summed) {
    const Result<SmallSum> sum = operation.way->SumOf(operation.copy);
    if (failure.ok() && sum.ok()) operation.entry.sum = *sum;
    if (failure.ok()) said = sum.status();
  }
  if (said.ok()) return said;
  if (failure.ok() && said.reason() == reasons::kChecksumMismatch) {
    operation.entry.outcome = Outcome::kDiffers;
    return said;
  }
  // What fails once its route is withdrawn fails because of that, whatever the hardware says.
  const bool revoked = route.revoked();
  operation.entry.outcome = revoked ? Outcome::kRevoked : Outcome::kFailed;
  if (!revoked) route.SetFailure(said);
  return revoked ? route.why() : said;
}

void ServedRing::Conclude(Operation& operation, const Status& failure, Clock::time_point now) {
  Route& route = *operation.route;
  const Status said = Settle(operation, failure);
  operation.entry.ended = now;
  journal_->Write(operation.entry);
  const bool is_long = operation.entry.bytes > kMaxBytes;
  if (is_long) operation.entry.alone = long_work_.End(operation.start);
  if (is_long || operation.entry.outcome == Outcome::kDiffers) {
    journal_->long_ends().Put(operation.entry);
  }
  const auto took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now - operation.entry.begun);
  if (operation.entry.outcome == Outcome::kSucceeded) {
    route.counts.NoteSuccess(operation.entry.bytes, took);
  } else {
    route.counts.NoteFailure(operation.entry.outcome);
  }
  const auto nanoseconds = static_cast<uint64_t>(took.count());
  if (operation.entry.sum) {
    end_.Complete(operation.entry.number, nanoseconds, *operation.entry.sum);
  } else {
    end_.Complete(operation.entry.number, nanoseconds, said.code(), said.reason());
  }
  route.Ended(now);
  --under_way_;
  bytes_under_way_ -= operation.entry.bytes;
}

}  // namespace onecopy::ring
