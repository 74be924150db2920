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

// Member 0 is the source and has all pieces. The other members are destinations. A member takes
// each piece from its neighbour (the member before it) as soon as the neighbour has it. It takes
// the piece from a member nearer to the source if the neighbour
// - has failed or is away;
// - failed to send an earlier piece;
// - has received nothing for kPatience although a piece is under way to it.
// A member is away if it can take its next piece from no member, and one of them did not answer. It
// tries all of them again every kTryAgain, and fails after `retry_for`. Used by one thread.
class Chain {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Longer than a daemon takes between two reports of progress, by far.
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kTryAgain{2};
  // A member fails if a limit on transfers blocks it for this time, or for `retry_for` if longer.
  static constexpr std::chrono::seconds kLimited{30};
  // For each member: one piece moves while the next one is negotiated.
  static constexpr size_t kPiecesUnderWay = 2;

  struct Take {
    size_t to = 0;
    size_t from = 0;
    size_t piece = 0;
    friend bool operator==(const Take&, const Take&) = default;
  };

  // `members` includes the source. `direct`: all members take from the source.
  Chain(size_t members, size_t pieces, bool direct, std::chrono::nanoseconds retry_for);

  // Returns the pieces to move now. Each is under way until Arrived, Failed or PutOff is called.
  std::vector<Take> Due(Time now);
  // Some of its bytes have arrived.
  void Moved(size_t member, Time now) { members_[member].moved = now; }
  void Arrived(const Take& take, Time now);
  // `take.to` no longer takes from `take.from`. If no other member is left to take from, it is away
  // or has failed; see above.
  void Failed(const Take& take, const Status& why, Time now);
  // A limit on transfers refused it. It is due again when another transfer of this chain has ended,
  // or after a pause if none is under way.
  void PutOff(const Take& take, const Status& why, Time now);
  // The member gets no further pieces, except for those under way.
  void GiveUp(size_t member, const Status& why, Time now);

  // A piece is under way to the member, and nothing has arrived there for kPatience.
  bool IsStill(size_t member, Time now) const {
    return members_[member].under_way > 0 && now - members_[member].moved >= kPatience;
  }
  // IsStill, and another member has the piece: cancel the transfer.
  bool IsStuck(const Take& take, Time now) const;

  // Every member has all pieces or has failed, and nothing is under way.
  bool done() const;
  // Empty if the member has all pieces or can still get them.
  const std::optional<Status>& failure(size_t member) const { return members_[member].failed; }
  bool has_all(size_t member) const { return members_[member].here == pieces_; }
  // The members that it stopped taking from, also temporarily, with the first reason.
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

  // A member may take from the members with a smaller number than this.
  size_t Ways(size_t to) const { return direct_ ? 1 : to; }
  std::optional<Take> NextFor(size_t to, Time now) const;
  // Whether a member that it still takes from has its next piece, or may get it.
  bool HasWay(size_t to) const;
  void End(const Take& take, Piece becomes);
  // Marks the member as away or failed if it has lost all ways, then checks the members behind it.
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
