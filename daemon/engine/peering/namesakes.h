// Two daemons that have one name and answer at the same time: found where both call this node, and
// told to both.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "onecopy/node.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. A daemon that was restarted is not a namesake of what it was before: both must
// have been heard, the first one by an answer to what was asked after the other one had called.
// Everything is bounded, and forgotten a minute after the last word of it.
class Namesakes {
 public:
  using Time = os::Clock::time_point;

  // Node `name`, of another start than the daemon that this node keeps to, has called from
  // `address`.
  void Called(const std::string& name, const std::string& boot_id, const std::string& address,
              Time now);
  // The daemon that this node keeps to, at `address`, has answered what was asked at `asked`. Logs
  // a new conflict.
  void Answered(const std::string& name, const std::string& boot_id, const std::string& address,
                Time asked);
  // A node of that name is not kept to any more.
  void Forget(const std::string& name) { rivals_.erase(name); }
  // Node `by` says, or, where that is empty, this node has seen, that another daemon with this
  // node's own name is at `address`. Logs what is new.
  void Told(const std::string& own_name, const std::string& own_address, const std::string& by,
            const std::string& address, Time now);

  // Where the other daemon of that name is, for the one of this start; empty: none is known.
  std::string OtherOf(const std::string& name, const std::string& boot_id, Time now) const;
  std::vector<NameConflict> Known(Time now) const;

 private:
  struct Rival {
    std::string boot_id;
    std::string address;
    std::string kept_boot_id;
    std::string kept_address;
    Time since{};
    Time last{};
    bool certain = false;
  };
  struct Own {
    NameConflict conflict;
    Time last{};
  };

  std::map<std::string, Rival> rivals_;  // by name
  std::map<std::string, Own> own_;       // by the other one's address
};

// Those of `more` that are not known yet; 64 in all at most.
void AddConflicts(std::vector<NameConflict> more, std::vector<NameConflict>& conflicts);

}  // namespace onecopy::engine
