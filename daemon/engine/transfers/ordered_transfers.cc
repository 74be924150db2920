#include "daemon/engine/transfers/ordered_transfers.h"

#include <utility>

#include "daemon/engine/base/footprint.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

void OrderedTransfers::Record(const OrderedRecord& ordered) {
  if (!needs_.records.CanName(ordered.owner) || !needs_.records.Put(ordered)) return;
  recorded_.insert(ordered.info.id);
}

void OrderedTransfers::Forget(const TransferId& id) {
  if (recorded_.erase(id) == 0) return;
  // If this daemon's start fails, the next process still shows the transfer.
  if (needs_.context.serving) return needs_.records.EraseOrdered(id);
  ended_early_.push_back(id);
}

void OrderedTransfers::Serving() {
  for (const TransferId& id : std::exchange(ended_early_, {})) needs_.records.EraseOrdered(id);
}

bool OrderedTransfers::Restore(const OrderedRecord& ordered) {
  Context& context = needs_.context;
  const TransferId& id = ordered.info.id;
  recorded_.insert(id);
  const std::string& destination = ordered.info.destination.node;
  if (needs_.transfers.Find(id) != nullptr) return true;  // it arrives here, and was resumed
  auto charge = needs_.transfers.Take(ordered.owner, context.node(), true, 0);
  const bool known = needs_.records.CanName(ordered.owner);
  Result<TransferRecord*> added =
      known && charge.ok()
          ? needs_.transfers.Add(ordered.info, ordered.owner, context.node(), *std::move(charge))
          : Status(Code::kNotFound, reasons::kTransferNotFound, "");
  if (!added.ok()) {
    Forget(id);
    return false;
  }
  TransferRecord& record = **added;
  record.series = record.bundle = ordered.bundle;
  record.BeganBefore();
  if (!context.IsSelf(destination)) {
    record.restored = true;
    record.info.state = TransferState::kRunning;
    record.info.waits_for = "node " + destination + " to say how far it is";
    needs_.remote_transfers.Await(record, destination, std::nullopt);
    needs_.remote_transfers.AwaitPeer(id);
    needs_.remote_transfers.AskWhenSilent(id);
    return true;
  }
  needs_.transfers.Conclude(record, {Code::kAborted, reasons::kPeerRestarted,
                                     "the daemon of node " + context.node() +
                                         " restarted during the transfer, which it cannot resume",
                                     "start the transfer again"});
  return true;
}

}  // namespace onecopy::engine
