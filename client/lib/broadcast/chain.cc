#include "client/lib/broadcast/chain.h"

#include <algorithm>
#include <limits>
#include <string>

namespace onecopy::client {
namespace {

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
      most_under_way_(std::numeric_limits<size_t>::max()) {
  for (Member& member : members_) member.pieces.assign(pieces, Piece::kMissing);
  members_[0].pieces.assign(pieces, Piece::kHere);
  members_[0].here = pieces;
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
      ++member.under_way;
      ++under_way_;
      due.push_back(*take);
    }
  }
  return due;
}

std::optional<Chain::Take> Chain::NextFor(size_t to, Time now) {
  const Member& member = members_[to];
  if (now < member.not_before) return std::nullopt;
  const auto missing = std::find(member.pieces.begin(), member.pieces.end(), Piece::kMissing);
  if (missing == member.pieces.end()) return std::nullopt;
  const auto piece = static_cast<size_t>(missing - member.pieces.begin());
  for (size_t from = direct_ ? 1 : to; from-- > 0;) {
    const Member& giver = members_[from];
    if (giver.failed || member.passed_over.contains(from)) continue;
    if (giver.pieces[piece] == Piece::kHere) return Take{to, from, piece};
    // One that itself waits will have the piece in time, by a way around if need be.
    if (!giver.away_since && !IsStill(from, now)) return std::nullopt;
  }
  return std::nullopt;
}

void Chain::End(const Take& take, Piece becomes) {
  Member& member = members_[take.to];
  member.pieces[take.piece] = becomes;
  --member.under_way;
  --under_way_;
}

void Chain::Arrived(const Take& take, Time now) {
  End(take, Piece::kHere);
  Member& member = members_[take.to];
  ++member.here;
  member.moved = now;
  member.away_since.reset();
  // Room, where a limit was met before: as much as there turns out to be.
  if (most_under_way_ != std::numeric_limits<size_t>::max()) ++most_under_way_;
}

void Chain::Failed(const Take& take, const Status& why, Time now) {
  End(take, Piece::kMissing);
  Member& member = members_[take.to];
  member.passed_over.insert(take.from);
  member.told.emplace(take.from, why);
  member.moved = now;  // the next way has as long again
  if (!HasWay(take.to)) LoseAllWays(take.to, why, now);
}

void Chain::LoseAllWays(size_t to, const Status& why, Time now) {
  Member& member = members_[to];
  if (!member.away_since) member.away_since = now;
  if (!IsOfAbsence(why) || now - *member.away_since >= retry_for_) return GiveUp(to, why);
  member.not_before = now + kTryAgain;
  member.passed_over.clear();
}

void Chain::SetAway(size_t member, const Status& why, Time now) { LoseAllWays(member, why, now); }

void Chain::PutOff(const Take& take, Time now) {
  End(take, Piece::kMissing);
  most_under_way_ = std::max<size_t>(under_way_, 1);
  if (under_way_ == 0) not_before_ = now + kAfterLimit;
}

bool Chain::HasWay(size_t to) const {
  const size_t ways = direct_ ? 1 : to;
  for (size_t from = 0; from < ways; ++from) {
    if (!members_[from].failed && !members_[to].passed_over.contains(from)) return true;
  }
  return false;
}

void Chain::GiveUp(size_t member, const Status& why) {
  if (members_[member].failed) return;
  members_[member].failed = why;
  // It may have been the last that another one took from.
  for (size_t to = member + 1; to < members_.size(); ++to) {
    if (!members_[to].failed && members_[to].here < pieces_ && !HasWay(to)) GiveUp(to, why);
  }
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
