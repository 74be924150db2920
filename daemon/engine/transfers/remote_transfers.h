// Transfers whose outcome another node decides, as far as this node knows it: those that it sends
// and those that it ordered.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/os/event_loop.h"

namespace onecopy::engine {

// Engine thread. The destination reports; where it cannot be heard in time, the transfer is
// UNCONFIRMED here, and becomes what the destination says when the two meet again. A destination
// that has restarted resumes the transfer if it has recorded it. If it does not know the transfer,
// the transfer has failed, unless the source knows better.
class RemoteTransfers {
 public:
  RemoteTransfers(Context& context, Peers& peers, Transfers& transfers)
      : context_(context), peers_(peers), transfers_(transfers) {}

  // From now on this record is what `destination` says. `deadline`: of the transfer, from now.
  void Await(TransferRecord& record, const std::string& destination,
             std::optional<std::chrono::milliseconds> deadline);

  // The destination knows of the transfer now. A report may get lost, so where none has come for a
  // heartbeat, it is asked.
  void AskWhenSilent(const TransferId& id);

  void Drop(const TransferId& id) { Conclude(id); }

  // What the destination says. NOT_FOUND for a transfer that it does not decide here.
  Status OnReport(const std::string& caller, const TransferInfo& said);

  void PeerLost(const std::string& node);
  // The same of one transfer, whose destination this process has not met yet.
  void AwaitPeer(const TransferId& id);
  // What it decides is not known, and nobody waits any longer for its word.
  void PeerGone(const std::string& node);
  void PeerMet(const std::string& node, bool restarted);

  // The node that decides this transfer; empty when it is this one, or the outcome is known.
  std::string DecidedBy(const TransferId& id) const;

 private:
  struct Awaited {
    std::string destination;
    os::EventLoop::TimerId deadline_timer = 0;
    os::EventLoop::TimerId lost_timer = 0;
    os::EventLoop::TimerId silence_timer = 0;
    bool heard = false;     // since the silence timer was set
    int unknown = 0;        // answers that the destination does not know it
    Status restarted = {};  // not OK: the outcome, if the restarted node does not know it
  };

  void Apply(TransferRecord& record, const TransferInfo& said);
  void Ask(const TransferId& id, const std::string& node);
  // The destination has forgotten the transfer. Where another node is the source, that may have
  // heard how it ended, and what it says counts; else it has failed for this reason.
  void Forgotten(const TransferId& id, const Status& why);
  void LimitAbsence(const TransferId& id, Awaited& awaited);
  void GiveUp(const TransferId& id, const Status& why);
  void Conclude(const TransferId& id);

  Context& context_;
  Peers& peers_;
  Transfers& transfers_;
  std::map<TransferId, Awaited> awaited_;
};

}  // namespace onecopy::engine
