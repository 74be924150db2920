#include "client/lib/broadcast/chain.h"

#include <algorithm>
#include <limits>

namespace onecopy::client {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
constexpr std::chrono::milliseconds kAfterLimit{200};

// A node that may be back later.
bool IsOfAbsence(const Status& why) {
  return why.code() == Code::kUnavailable || why.code() == Code::kDeadlineExceeded;
}

}  // namespace

Chain::Chain(size_t members, size_t pieces, bool direct, std::chrono::nanoseconds retry_for)
    : pieces_(pieces),
      direct_(direct),
      retry_for_(retry_for),
      members_(members),
      most_under_way_(kNoLimit) {
  for (Member& member : members_) member.pieces.assign(pieces, Piece::kMissing);
  members_[0].pieces.assign(pieces, Piece::kHere);
  members_[0].here = members_[0].next = pieces;
}

std::vector<Chain::Take> Chain::Due(Time now) {
  std::vector<Take> due;
  if (now < not_before_) return due;
  for (size_t to = 1; to < members_.size(); ++to) {
    Member& member = members_[to];
    while (!member.failed && member.under_way < kPiecesUnderWay && under_way_ < most_under_way_) {
      const std::optional<Take> take = NextFor(to, now);
      if (!take) break;
      if (member.under_way == 0) member.moved = now;
      member.pieces[take->piece] = Piece::kUnderWay;
      while (member.next < pieces_ && member.pieces[member.next] != Piece::kMissing) ++member.next;
      ++member.under_way;
      ++under_way_;
      due.push_back(*take);
    }
  }
  return due;
}

std::optional<Chain::Take> Chain::NextFor(size_t to, Time now) const {
  const Member& member = members_[to];
  const size_t piece = member.next;
  if (now < member.not_before || piece == pieces_) return std::nullopt;
  for (size_t from = Ways(to); from-- > 0;) {
    const Member& giver = members_[from];
    if (giver.failed || member.passed_over.contains(from)) continue;
    if (giver.pieces[piece] == Piece::kHere) return Take{to, from, piece};
    // One that itself waits will have the piece in time, by a way around if need be.
    if (!giver.away_since && !IsStill(from, now)) return std::nullopt;
  }
  return std::nullopt;
}

bool Chain::HasWay(size_t to) const {
  const Member& member = members_[to];
  const size_t piece = member.next;
  if (piece == pieces_) return true;
  for (size_t from = 0; from < Ways(to); ++from) {
    const Member& giver = members_[from];
    if (giver.failed || member.passed_over.contains(from)) continue;
    if (giver.pieces[piece] == Piece::kHere || !giver.away_since) return true;
  }
  return false;
}

void Chain::End(const Take& take, Piece becomes) {
  Member& member = members_[take.to];
  member.pieces[take.piece] = becomes;
  if (becomes == Piece::kMissing) member.next = std::min(member.next, take.piece);
  --member.under_way;
  --under_way_;
}

void Chain::Arrived(const Take& take, Time now) {
  End(take, Piece::kHere);
  Member& member = members_[take.to];
  ++member.here;
  member.moved = now;
  member.away_since.reset();
  member.limited_since.reset();
  if (member.here == pieces_) member.failed.reset();  // it was given up too early
  // Room, where a limit was met before: as much as there turns out to be.
  if (most_under_way_ != kNoLimit) ++most_under_way_;
  Settle(take.to, now);
}

void Chain::Failed(const Take& take, const Status& why, Time now) {
  End(take, Piece::kMissing);
  Member& member = members_[take.to];
  member.passed_over.emplace(take.from, why);
  member.told.emplace(take.from, why);
  member.moved = now;  // the next way has as long again
  Settle(take.to, now);
}

void Chain::PutOff(const Take& take, const Status& why, Time now) {
  End(take, Piece::kMissing);
  most_under_way_ = std::max<size_t>(under_way_, 1);
  Member& member = members_[take.to];
  if (under_way_ > 0) {  // which may be what it waits for
    member.limited_since.reset();
    return Settle(take.to, now);
  }
  not_before_ = now + kAfterLimit;
  if (!member.limited_since) member.limited_since = now;
  const auto patience = std::max<std::chrono::nanoseconds>(kLimited, retry_for_);
  if (now - *member.limited_since >= patience) return GiveUp(take.to, why, now);
  Settle(take.to, now);
}

void Chain::Settle(size_t member, Time now) {
  bool has_changed = members_[member].failed.has_value();
  if (HasLostAllWays(member, now)) {
    LoseAllWays(members_[member], now);
    has_changed = true;
  }
  if (!has_changed) return;
  for (size_t behind = member + 1; behind < members_.size(); ++behind) {
    if (HasLostAllWays(behind, now)) LoseAllWays(members_[behind], now);
  }
}

bool Chain::HasLostAllWays(size_t to, Time now) const {
  const Member& member = members_[to];
  return !member.failed && member.here < pieces_ && member.under_way == 0 &&
         now >= member.not_before && !HasWay(to);
}

void Chain::LoseAllWays(Member& member, Time now) {
  const auto& barred = member.passed_over;
  const bool is_away = std::any_of(barred.begin(), barred.end(),
                                   [](const auto& each) { return IsOfAbsence(each.second); });
  if (!member.away_since) member.away_since = now;
  if (is_away && now - *member.away_since < retry_for_) {
    member.not_before = now + kTryAgain;
    member.passed_over.clear();
    return;
  }
  // The source is always one of them, and the most telling.
  member.failed = barred.begin()->second;
}

void Chain::GiveUp(size_t member, const Status& why, Time now) {
  if (!members_[member].failed) members_[member].failed = why;
  Settle(member, now);
}

bool Chain::IsStuck(const Take& take, Time now) const {
  const Member& member = members_[take.to];
  if (!IsStill(take.to, now)) return false;
  for (size_t from = take.from; from-- > 0;) {
    const Member& giver = members_[from];
    if (!giver.failed && !member.passed_over.contains(from) &&
        giver.pieces[take.piece] == Piece::kHere) {
      return true;
    }
  }
  return false;
}

bool Chain::done() const {
  return under_way_ == 0 && std::all_of(members_.begin(), members_.end(), [&](const Member& each) {
           return each.failed || each.here == pieces_;
         });
}

}  // namespace onecopy::client
