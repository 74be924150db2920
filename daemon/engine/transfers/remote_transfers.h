// What this node knows of transfers whose outcome another node decides: those that this node sends
// and those that its clients asked for.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. The destination decides and reports the state. If it cannot be reached in time,
// the transfer is UNCONFIRMED here until the two nodes meet again and the destination reports.
// A destination that has restarted resumes the transfer if it has recorded it. If it does not know
// the transfer, the transfer has failed, unless the source knows how it ended.
class RemoteTransfers {
 public:
  RemoteTransfers(Context& context, Peers& peers, Transfers& transfers)
      : context_(context), peers_(peers), transfers_(transfers) {}

  // From now on the record shows what `destination` reports. `deadline`: the transfer's, from now.
  void Await(TransferRecord& record, const std::string& destination,
             std::optional<std::chrono::milliseconds> deadline);

  // Call this once the destination knows of the transfer. Reports can get lost, so this asks the
  // destination after each heartbeat interval without one.
  void AskWhenSilent(const TransferId& id);

  void Drop(const TransferId& id) { Conclude(id); }

  // Applies a report from node `caller`. NOT_FOUND if that node does not decide the transfer.
  Status OnReport(const std::string& caller, const TransferInfo& said);

  // The node is out of reach. If it does not return in time, its transfers become UNCONFIRMED.
  void PeerLost(const std::string& node);
  // The same for one transfer, whose destination this process has not met yet.
  void AwaitPeer(const TransferId& id);
  // The node has gone: its transfers become UNCONFIRMED now, or when a wait that already runs ends.
  void PeerGone(const std::string& node);
  void PeerMet(const std::string& node, bool restarted);

  // The node that decides this transfer; empty if it is this one, or if the outcome is known.
  std::string DecidedBy(const TransferId& id) const;
  // The nodes that decide transfers whose outcome this node waits for.
  std::set<std::string> Deciders() const;

 private:
  struct Awaited {
    std::string destination;
    os::EventLoop::TimerId deadline_timer = 0;
    os::EventLoop::TimerId lost_timer = 0;
    os::EventLoop::TimerId silence_timer = 0;
    bool heard = false;     // since the silence timer was set
    int unknown = 0;        // how often the destination has said that it does not know it
    Status restarted = {};  // not OK: the outcome, if the restarted node does not know it
  };

  void Apply(TransferRecord& record, const TransferInfo& said);
  void Ask(const TransferId& id, const std::string& node);
  // The destination does not know the transfer. If the source is a third node, asks it: if it knows
  // how the transfer ended, that counts. Otherwise the transfer fails with `why`.
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
