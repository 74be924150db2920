// Which of the other agents have gone.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "client/nixl/wire.h"
#include "onecopy/client.h"
#include "onecopy/status.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// A buffer that is not found may have gone with its agent's process, or with a daemon that was
// restarted, with which its agent registers it again by itself. An agent's mailbox tells which: it
// is there for as long as the agent is. Thread-safe.
class Presence {
 public:
  // So long an agent may take to be there again after its daemon was restarted or its node was not
  // reached; from then on it counts as gone.
  static constexpr std::chrono::seconds kPatience{30};

  // Something worked with that agent: its mailbox was there, and this agent may use it.
  void Met(const AgentPlace& place);
  void Forget(const AgentPlace& place);

  // OWNER_DIED where Judge has seen that the agent has gone with its process.
  Status Known(const AgentPlace& place) const;

  // Whether that is one of the failures which Judge looks into.
  static bool IsDoubtful(const Status& failure);

  // What something with that agent failed with; ABORTED (OWNER_DIED) where the agent has gone.
  // Blocks, two seconds at most, while it asks the agent's node.
  Status Judge(Client& client, const AgentPlace& place, Status failure);

 private:
  using Clock = std::chrono::steady_clock;
  struct Agent {
    bool met = false;
    bool gone = false;
    Clock::time_point missed = {};  // when it was first not there; nothing: it was there last
  };

  // Whether it has not been there for longer than kPatience, now that it is not.
  bool IsOverdue(const AgentPlace& place);

  mutable Mutex mutex_;
  std::map<std::string, Agent> agents_ ONECOPY_GUARDED_BY(mutex_);  // by mailbox
};

}  // namespace onecopy::nixl
