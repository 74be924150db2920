// What probes have found, for the planner and for people, and what makes it old.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/probing/probe_run.h"
#include "daemon/plan/estimates.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread.
class ProbeTable {
 public:
  // A wire from a node to this one.
  struct Key {
    std::string node;  // this one: in loopback
    plan::Wire wire;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  enum class State { kAbsent, kStale, kFresh };
  struct Entry {
    std::optional<ProbeOutcome> outcome;
    WallTime time;
    WallTime expire_time;
    os::Clock::time_point expires;
    int failures = 0;  // in a row
    bool queued = false;
    bool running = false;
    bool forced = false;  // the share of the link's time does not count
    std::vector<Task> waiting;

    State state() const;
  };

  // Null when there are too many already; of those that are neither fresh nor under way some go.
  Entry* Ensure(const Key& key);
  // One that is queued or running is there.
  Entry& At(const Key& key) { return entries_.at(key); }
  // Null where nothing is known.
  const Entry* Find(const Key& key) const;

  plan::Estimates EstimatesFor(const std::string& node) const;
  std::vector<ProbeInfo> Describe(const std::string& node) const;

  // What was found may no longer hold: of this link, where `self` is this node; of what a peer can
  // do; of a peer that is another process now.
  void LinkChanged(const std::string& link, const std::string& self);
  void PeerChanged(const std::string& node, const NodeCapability& before,
                   const NodeCapability& now);
  void PeerRestarted(const std::string& node);

 private:
  std::map<Key, Entry> entries_;
};

}  // namespace onecopy::engine
