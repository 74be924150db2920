// Transfers whose bytes lie here and go to another node.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/source_run.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for what each call does.
class Sources {
 public:
  struct Needs {
    Connections& connections;
    Tickets& tickets;
    RemoteTransfers& remote_transfers;
    Series& series;
    SourceRun::Needs runs;
  };

  explicit Sources(const Needs& needs) : needs_(needs) {}

  void Prepare(const std::string& caller, PrepareRequest request, Reply<PrepareReply> reply);
  void Finish(const std::string& caller, const FinishRequest& request, Reply<FinishReply> reply);

  // A connection that this node answered, by its number, is gone: so is what is open over it.
  void DropConnection(uint64_t number, const Status& why);
  // A buffer has gone with its owner.
  void LoseBuffer(BufferId buffer, const Status& why);

  // The outcome is known: no Finish will come any more, or none that matters.
  void Forget(const TransferId& id);
  void Clear() { runs_.clear(); }  // at the engine's end

 private:
  // Whether the record is of what this node ordered, with that ticket, for the caller to read.
  bool IsOrderOf(const TransferRecord& record, const Ticket& ticket,
                 const std::string& caller) const;
  // Whether the next process of this daemon will have what the destination wants to read.
  bool Returns(const std::string& caller, const PrepareRequest& request) const;
  // A destination that has lost its connection: what was opened on that is closed, then it prepares
  // again, by the right that it had, as far as that still stands.
  void BeginAgain(const std::string& caller, PrepareRequest request, Reply<PrepareReply> reply);

  const Needs needs_;
  std::map<TransferId, std::shared_ptr<SourceRun>>
      runs_;  // from Prepare until the outcome is known
};

}  // namespace onecopy::engine
