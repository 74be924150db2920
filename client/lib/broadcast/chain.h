// Which member of a broadcast takes which piece from which other, and when. Decisions only:
// spread.h carries them out.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "onecopy/status.h"

namespace onecopy::client {

// Member 0 is the source, which has all pieces; each other member is a destination, which wants all
// of them. A member takes each piece from the one before it, as soon as that has it. It takes from
// one farther up where the one before
// - has failed, or is away;
// - has not given it an earlier piece;
// - has had a piece under way for kPatience, and none of it arrived.
// A member to which every way is barred, as a node does not answer, is away: it tries all ways
// again every kTryAgain, and fails once it has been away for `retry_for`. Used by one thread.
class Chain {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Longer than a daemon takes between two reports of progress, by far.
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kTryAgain{2};
  // How long a limit on transfers may keep a member from getting anything, at least.
  static constexpr std::chrono::seconds kLimited{30};
  // Of one member: one moves while the next is negotiated.
  static constexpr size_t kPiecesUnderWay = 2;

  struct Take {
    size_t to = 0;
    size_t from = 0;
    size_t piece = 0;
    friend auto operator<=>(const Take&, const Take&) = default;
  };

  // `members`: with the source. `direct`: all take from the source, as suits what is small.
  Chain(size_t members, size_t pieces, bool direct, std::chrono::nanoseconds retry_for);

  // What is to begin now; each is under way from then on, and ends by Arrived, Failed or PutOff.
  std::vector<Take> Due(Time now);
  // Some of its bytes have arrived.
  void Moved(size_t member, Time now) { members_[member].moved = now; }
  void Arrived(const Take& take, Time now);
  // It does not take from that one again. Where that bars the last way, it is away if one of them
  // was barred by a node that does not answer, and has failed otherwise.
  void Failed(const Take& take, const Status& why, Time now);
  // A limit on transfers at a time kept it from beginning: it is due again once one of these here
  // has ended, or a little later. The member fails where that goes on with none of them under way.
  void PutOff(const Take& take, const Status& why, Time now);
  // Will not get more than is under way.
  void GiveUp(size_t member, const Status& why, Time now);

  // Nothing has arrived there for kPatience, though something is under way to it.
  bool IsStill(size_t member, Time now) const {
    return members_[member].under_way > 0 && now - members_[member].moved >= kPatience;
  }
  // IsStill, and the piece could come from another one: the transfer is better cancelled.
  bool IsStuck(const Take& take, Time now) const;

  // Every member has all pieces or has failed, and nothing is under way.
  bool done() const;
  // Nothing: it has all pieces, or may yet.
  const std::optional<Status>& failure(size_t member) const { return members_[member].failed; }
  bool has_all(size_t member) const { return members_[member].here == pieces_; }
  // Those that it stopped taking from, be it for a while, and why the first time.
  const std::map<size_t, Status>& passed_over(size_t member) const { return members_[member].told; }

 private:
  enum class Piece : char { kMissing, kUnderWay, kHere };
  struct Member {
    std::vector<Piece> pieces;
    size_t next = 0;  // the first that is missing; no piece: none is
    size_t here = 0;
    size_t under_way = 0;
    Time moved = {};  // when bytes last arrived, or the first piece began to be under way
    std::map<size_t, Status> passed_over;  // since it last began to try all ways
    std::map<size_t, Status> told;
    std::optional<Time> away_since;
    Time not_before = {};  // while it is away
    std::optional<Time> limited_since;
    std::optional<Status> failed;
  };

  // The ones that a member may take from are those before this number.
  size_t Ways(size_t to) const { return direct_ ? 1 : to; }
  std::optional<Take> NextFor(size_t to, Time now) const;
  // Whether its next piece is to be had, or may be later, from one that it takes from.
  bool HasWay(size_t to) const;
  void End(const Take& take, Piece becomes);
  // Where it has no way and nothing under way it is away, or has failed; then so may others behind
  // it, which had their last way from it.
  void Settle(size_t member, Time now);
  bool HasLostAllWays(size_t to, Time now) const;
  void LoseAllWays(Member& member, Time now);

  const size_t pieces_;
  const bool direct_;
  const std::chrono::nanoseconds retry_for_;
  std::vector<Member> members_;
  size_t under_way_ = 0;
  size_t most_under_way_;
  Time not_before_ = {};  // after a limit was met
};

}  // namespace onecopy::client
