// Transfers that a client moves in parts, one after another: a file through windows of memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. A series is a record among the transfers, without a byte of its own: its parts are
// transfers like any other, but in no list, and their receipts add up to its. The node that its
// client is attached to decides it and reports to the other end's node, where a part that arrives
// brings the series with it and RemoteTransfers keeps it.
class Series {
 public:
  Series(Context& context, const Owners& owners, Peers& peers, Transfers& transfers,
         RemoteTransfers& remote_transfers);
  ~Series();

  // See onecopy.v1.TransferService.
  Result<TransferInfo> Open(const Principal& who, SeriesRequest request);
  Result<TransferInfo> End(const Principal& who, const SeriesEnd& end);

  // Makes an order a part of the series that it names: with that one's policy and the time that is
  // left of its deadline. Refused, or Started, must follow. NOT_FOUND for a series that `who` has
  // not opened here, FAILED_PRECONDITION or the failure of the series for one that has ended;
  // INVALID_ARGUMENT for an order with a policy, checksum or deadline of its own.
  Status Adopt(const Principal& who, TransferRequest& part, const TransferId& id);
  void Refused(const TransferId& series, const TransferId& part);
  void Started(const TransferRecord& part);

  // What this node decides under that id, a series or a transfer of several buffers, as others are
  // told of it; absent where it decides none.
  std::optional<TransferInfo> Find(const TransferId& id) const;
  // From now on the newest parts of that transfer are kept when they have ended.
  void KeepPartsOf(const TransferId& id) { ended_[id]; }

  // A part of `caller`'s series `said` comes to be here. INVALID_ARGUMENT for an id that is another
  // transfer's, FAILED_PRECONDITION for a series that has ended, RESOURCE_EXHAUSTED (QUOTA).
  Status Join(const std::string& caller, const TransferInfo& said, const Owner& owner,
              TransferRole role);

  // Of a transfer of any kind that has reached its last state.
  void OnFinal(const TransferRecord& record);
  // A transfer of any kind is not known any more.
  void OnForgotten(const TransferId& id) { ForgetEnded(id); }
  // The client has gone: its series end.
  void EndSession(const SessionId& session);

 private:
  class SeriesRun;
  struct Deciding;

  Deciding* DecidedFor(const Principal& who, const TransferId& id);
  // By value, as what they end may be what held the id.
  void Cancel(TransferId id, const Status& why);
  void CancelParts(const TransferId& id);
  void OnDeadline(const TransferId& id, bool parts_first);
  void Tick(const TransferId& id);
  // Ends it where nothing of it is under way any more.
  void ConcludeIfOver(TransferId id);
  void AddPart(const TransferRecord& part);
  // Keeps the newest parts that have ended, for those who ask for them, and forgets the others.
  void KeepEnded(const TransferId& series, const TransferRecord& part);
  void ForgetEnded(const TransferId& series);

  Context& context_;
  const Owners& owners_;
  Peers& peers_;
  Transfers& transfers_;
  RemoteTransfers& remote_transfers_;
  std::map<TransferId, std::unique_ptr<Deciding>> deciding_;
  std::map<TransferId, std::deque<TransferId>> ended_;  // parts of every series known here
};

}  // namespace onecopy::engine
