// Counts transfers as they end, for the metrics (daemon/metrics).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/transfers/transfers.h"
#include "onecopy/transfer.h"

namespace onecopy::engine {

// Engine thread. Numbers grow only; how many there are is bounded, whatever peers say of paths,
// links and reasons. Each transfer is counted once: one that a ring carried by AddRing, any other
// by Note. Parts of a series bring its bytes, and the series itself is the transfer.
class Tally {
 public:
  // Of that node; `links` are the names of those that it has.
  Tally(std::string node, std::set<std::string> links);

  // One that has ended.
  void Note(const TransferRecord& record);
  // A request for a transfer that was refused before there was one.
  void NoteRefused(const Status& why);

  // What a route of a ring is.
  struct RingWay {
    const Plan* plan = nullptr;
    std::string peer;  // the other node; empty inside this one
    Direction direction = Direction::kInside;
    uint32_t copies = 0;
  };
  // What it carried since this was called last.
  struct RingAmount {
    DurationHistogram durations;  // of those that succeeded, as are the sizes
    SizeHistogram sizes;
  };
  void AddRing(const RingWay& way, const RingAmount& amount);
  // Those of it that failed. `plan` is null where they named no route.
  void AddRingFailures(const Plan* plan, Direction direction, const Status& why, uint64_t count);

  // Counts a transfer that is under way as Note will once it has ended; at most kMaxBytesTold keys.
  void AddRunning(const TransferRecord& record,
                  std::map<TransferFigures::BytesKey, TransferFigures::Amount>& running) const;

  // It has gone, and what is told of it goes too.
  void DropPeer(const std::string& node);

  const TransferFigures& figures() const { return figures_; }

 private:
  // A set of words that others may add to, bounded.
  class Words {
   public:
    explicit Words(size_t most) : most_(most) {}
    // The word, or `instead` where there are too many.
    std::string Take(const std::string& word, std::string_view instead);
    void Drop(const std::string& word) { known_.erase(word); }
    bool full() const { return known_.size() >= most_; }
    bool Has(const std::string& word) const { return known_.contains(word); }

   private:
    const size_t most_;
    std::set<std::string> known_;
  };

  Direction DirectionOf(const TransferInfo& info) const;
  // The other node; empty inside this one and elsewhere.
  const std::string& PeerOf(const TransferInfo& info) const;
  std::string LinkName(const std::string& link) const;
  std::string ReasonName(const std::string& reason);
  void AddBytes(const std::string& path, const std::string& link, const std::string& peer,
                Direction direction, uint64_t bytes);
  void AddPath(const std::string& path, uint32_t copies, const std::vector<Refusal>& refused,
               TransferFigures::Amount amount);
  void AddRefusals(const std::vector<Refusal>& refused, uint64_t transfers);
  void AddLanes(const std::string& link, const std::vector<LaneBytes>& lanes);
  void AddFailovers(const std::vector<Attempt>& attempts);

  const std::string node_;
  const std::set<std::string> links_;
  TransferFigures figures_;
  Words peers_{kMaxPeersTold};
  Words reasons_;
};

}  // namespace onecopy::engine
