#include "client/nixl/presence.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

constexpr std::chrono::milliseconds kAsk(1000);  // each of two questions

// What tells nothing of an agent but that it, or its node, is not there now.
constexpr std::array<std::string_view, 6> kDoubtful = {
    reasons::kBufferNotFound, reasons::kNotWatched, reasons::kPeerDown,
    reasons::kLinkDown,       reasons::kStalled,    reasons::kPeerRestarted};

}  // namespace

void Presence::Met(const AgentPlace& place) {
  const MutexLock lock(mutex_);
  agents_[place.mailbox] = {.met = true};
}

void Presence::Forget(const AgentPlace& place) {
  const MutexLock lock(mutex_);
  agents_.erase(place.mailbox);
}

Status Presence::Known(const AgentPlace& place) const {
  const MutexLock lock(mutex_);
  const auto agent = agents_.find(place.mailbox);
  if (agent == agents_.end() || !agent->second.gone) return OkStatus();
  return {Code::kAborted, reasons::kOwnerDied, "the other agent's process has ended",
          "load the metadata of the agent that replaces it"};
}

bool Presence::IsDoubtful(const Status& failure) {
  return std::find(kDoubtful.begin(), kDoubtful.end(), failure.reason()) != kDoubtful.end();
}

Status Presence::Judge(Client& client, const AgentPlace& place, Status failure) {
  if (!IsDoubtful(failure)) return failure;
  const Status mailbox = client.GetBuffer(place.node, place.mailbox, {}, kAsk).status();
  if (mailbox.ok()) {
    Met(place);
    return failure;
  }
  bool gone = false;
  if (mailbox.reason() == reasons::kBufferNotFound) {
    // Of the daemon that it was made with: nothing makes it again. An agent that was never met may
    // be one whose buffers are not shown to this one's user.
    const Result<NodeInfo> node = client.GetNode(place.node);
    gone = node.ok() && node->boot_id == place.boot_id;
  }
  const bool overdue = IsOverdue(place);
  {
    const MutexLock lock(mutex_);
    Agent& agent = agents_[place.mailbox];
    if (!agent.met) return failure;
    agent.gone = gone;
  }
  if (!gone && !overdue) return failure;
  return {
      Code::kAborted, reasons::kOwnerDied,
      (gone ? "the other agent's process has ended: "
            : "the other agent has been absent for " + std::to_string(kPatience.count()) + " s: ") +
          failure.message(),
      "load the metadata of the agent that replaces it"};
}

bool Presence::IsOverdue(const AgentPlace& place) {
  const Clock::time_point now = Clock::now();
  const MutexLock lock(mutex_);
  Agent& agent = agents_[place.mailbox];
  if (agent.missed == Clock::time_point()) agent.missed = now;
  return now - agent.missed > kPatience;
}

}  // namespace onecopy::nixl
