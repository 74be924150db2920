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

// Engine thread. A file is opened when its transfer is ordered, with this daemon's own rights, by a
// thread that waits for nobody but the asking user, and is a buffer in no list for as long as a
// ticket or a transfer may need it.
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

  // Whether that end of a request is such a file.
  static bool Names(const Endpoint& end) { return end.buffer.empty() && !end.file.empty(); }

  // The file that the request's source names, as a buffer. INVALID_ARGUMENT (BAD_ENDPOINT) for what
  // is no absolute path, or not in its shortest form; PERMISSION_DENIED (ACCESS_DENIED), whether
  // there is such a file or not, where no root that `who` may read covers it; else as
  // os::OpenBeneath and Store::Open say. The audit log is told in any case.
  void Open(const Principal& who, const ReserveRequest& request, Reply<BufferId> reply);
  // Likewise the one that its destination names, to be written by that transfer: a part of it where
  // a range or ranges are named, else the whole, which has its name once StoreFile::Commit has
  // succeeded; else nothing is left of it. Fails also as os::OutputBeneath::Open does.
  void OpenToWrite(const Principal& who, const StartRequest& request, Reply<BufferId> reply);
  // Nobody will ask for it any more.
  void Drop(BufferId id);

 private:
  struct Asked;
  struct Held {
    std::string initiator;
    TransferId transfer;
    FileUse use = FileUse::kRead;
    os::Clock::time_point opened;
  };

  // Of the roots that cover the path and that `who` may use so, the longest; null: none.
  const ExportOptions* Find(const Principal& who, const std::string& path, FileUse use) const;
  Status CheckRoom(const Principal& who) const;
  // `asked.file`: but for how it is opened.
  void Open(const Principal& who, Asked asked, Reply<BufferId> reply);
  Result<BufferId> Keep(const Principal& who, const Asked& asked,
                        Result<std::shared_ptr<StoreFile>> opened);
  void Sweep();

  const Needs needs_;
  std::vector<ExportOptions> exports_;
  std::map<BufferId, Held> held_;
  bool sweeping_ = false;
};

}  // namespace onecopy::engine
