// What transfers made by whole paths, as their receipts say: for the plans of the next, and to tell
// when one is far slower than its path has been.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/plan/estimates.h"
#include "daemon/plan/path_rate.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. Keeps the last few rates of each way and size class, their median is what the
// planner gets. Bounded: of too many ways the one that was gone longest ago is forgotten, and any
// rate after six hours.
//
// A way that lost because of what was measured would never be measured again. So for each the time
// is counted since it was gone last, and transfers may lose so much of it (`share`) by going there
// once more: see plan::PathRate::spare_seconds.
class PathRates {
 public:
  using Clock = std::function<os::Clock::time_point()>;

  explicit PathRates(double share, Clock clock = os::Clock::now)
      : share_(share), clock_(std::move(clock)) {}

  // A transfer from that node (this one: inside it) that had both nodes to itself. One that is too
  // short to tell anything is not counted.
  void Note(const std::string& node, const plan::PathKey& way, uint64_t bytes, double seconds);
  // A transfer goes this way only to find out about it.
  void TriedAgain(const std::string& node, const plan::PathKey& way);

  void AddTo(plan::Estimates& estimates, const std::string& node) const;

  struct Usual {
    double bytes_per_second = 0;
    WallTime time;  // when that was last so
  };
  // The best median of transfers of about that size, of three at least; of the next sizes where
  // there were none of this one, the slowest of these. What is far below it is worth an alarm.
  std::optional<Usual> UsualOf(const std::string& node, const plan::PathKey& way,
                               uint64_t bytes) const;

  std::vector<PathRateInfo> Describe(const std::string& node) const;

  // What was measured may no longer hold.
  void LinkChanged(const std::string& link);
  void PeerRestarted(const std::string& node);

  size_t ways() const { return entries_.size(); }

 private:
  using Key = std::pair<std::string, plan::PathKey>;
  struct Sample {
    double bytes_per_second = 0;
    os::Clock::time_point when;
    WallTime time;
  };
  struct SizeClass {
    std::vector<Sample> samples;  // the oldest first
    Sample best;                  // median; none as long as its rate is 0
  };
  struct Entry {
    std::array<SizeClass, plan::kSizeClasses.size()> classes;
    os::Clock::time_point gone;  // when a transfer went there last
  };

  void MakeRoom();
  // Of those samples that still count.
  plan::PathRate RateOf(const SizeClass& rates) const;
  bool Counts(const Sample& sample) const;

  const double share_;
  const Clock clock_;
  std::map<Key, Entry> entries_;
};

}  // namespace onecopy::engine
