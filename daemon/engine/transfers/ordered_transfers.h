// Records the transfers that clients of this node asked for, for the next process of the daemon.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. Without a holder every call does nothing.
class OrderedTransfers {
 public:
  struct Needs {
    Context& context;
    Records& records;
    Transfers& transfers;
    RemoteTransfers& remote_transfers;
  };

  explicit OrderedTransfers(const Needs& needs) : needs_(needs) {}

  bool on() const { return needs_.records.on(); }

  // Call this before the destination hears of the transfer. A record that the table has no room for
  // is left out.
  void Record(const OrderedRecord& ordered);
  // Erases the record, if there is one. Call it when the transfer ends, is refused or is forgotten.
  void Forget(const TransferId& id);
  // The daemon's start has succeeded: erases the records that Forget has kept until now.
  void Serving();

  // Restores a transfer that the previous process left. Call this after ResumedDestinations has
  // resumed the transfers to this node. A transfer to another node awaits its reports again. One to
  // this node that could not be resumed is shown as FAILED (PEER_RESTARTED). Returns false if the
  // user is unknown or has no room for it.
  bool Restore(const OrderedRecord& ordered);

 private:
  const Needs needs_;
  std::set<TransferId> recorded_;
  std::vector<TransferId> ended_early_;  // forgotten before Serving
};

}  // namespace onecopy::engine
