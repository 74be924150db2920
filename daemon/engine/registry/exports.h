// Files of this node that others may read or write, below the roots that the configuration exports.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/tickets.h"

namespace onecopy::engine {

// Engine thread. A file is opened when its transfer is requested, with this daemon's own rights, by
// a thread that waits only for this user's files. It is a buffer that no list shows, for as long as
// a ticket or a transfer may need it.
class Exports {
 public:
  struct Needs {
    Context& context;
    const Owners& owners;
    Buffers& buffers;
    const Tickets& tickets;
    // Whether this node takes part in that transfer, and it has not ended.
    std::function<bool(const TransferId&)> under_way;
  };

  // At first what the options say.
  explicit Exports(Needs needs)
      : needs_(std::move(needs)), exports_(needs_.context.options.exports) {}

  // What may be opened from now on; files that are open stay.
  void Configure(std::vector<ExportOptions> exports) { exports_ = std::move(exports); }

  // The folders that `who` may use, by their names; all, for an administrator of this node.
  Result<Page<ExportInfo>> SeenBy(const Principal& who, const PageRequest& page) const;

  // Whether that end of a request is such a file.
  static bool Names(const Endpoint& end) { return end.buffer.empty() && !end.file.empty(); }

  // The file that the request's source names, as a buffer. INVALID_ARGUMENT (BAD_ENDPOINT) for a
  // path that is not absolute, or not in its shortest form; PERMISSION_DENIED (ACCESS_DENIED),
  // whether the file exists or not, if no root that `who` may read covers it; else as
  // os::OpenBeneath and Store::Open say. The audit log is told in any case.
  void Open(const Principal& who, const ReserveRequest& request, Reply<BufferId> reply);
  // Likewise the one that its destination names, to be written by that transfer: a part of it where
  // a range or ranges are named, else the whole, which has its name once StoreFile::Commit has
  // succeeded; else nothing is left of it. Fails also as os::OutputBeneath::Open does.
  void OpenToWrite(const Principal& who, const StartRequest& request, Reply<BufferId> reply);
  // Nobody will ask for it any more.
  void Drop(BufferId id);
  // What was opened for a plan alone: it has been made.
  void DropPlanned(BufferId id);
  // The transfer has reached its last state.
  void EndTransfer(const TransferId& id);

 private:
  struct Asked;
  // Of the caller, as the payer, and of the user that a peer named.
  struct Charges {
    Ledger::Charge payers;
    Ledger::Charge users;
  };
  struct Held {
    std::string initiator;
    TransferId transfer;
    FileUse use = FileUse::kRead;
    Charges charges;
    // Of what is only planned, which has no ticket: until when another node may ask about it.
    os::Clock::time_point planned_until = {};
  };

  // Of the roots that cover the path and that `who` may use so, the longest; null: none.
  const ExportOptions* Find(const Principal& who, const std::string& path, FileUse use) const;
  bool May(const Principal& who, const ExportOptions& one, FileUse use) const;
  Result<Charges> TakeRoom(const Principal& who) const;
  // `asked.file`: all but how it is opened.
  void Open(const Principal& who, Asked asked, Reply<BufferId> reply);
  Result<BufferId> Keep(const Principal& who, Asked& asked,
                        Result<std::shared_ptr<StoreFile>> opened);
  void Sweep();

  const Needs needs_;
  std::vector<ExportOptions> exports_;
  std::map<BufferId, Held> held_;
  std::multimap<TransferId, BufferId> by_transfer_;  // those of a transfer
  bool sweeping_ = false;
};

}  // namespace onecopy::engine
