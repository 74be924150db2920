// One posting of a request: its transfers, until the last of them has ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "client/nixl/session.h"
#include "client/nixl/workers.h"
#include "onecopy/async.h"
#include "onecopy/status.h"
#include "onecopy/transfer.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

using Requests = std::vector<std::shared_ptr<const TransferRequest>>;

// Thread-safe. No thread waits for it: the caller that asks for the outcome looks. Only what
// follows the transfers, and repetitions, run on a thread.
class Posting : public std::enable_shared_from_this<Posting> {
 public:
  // What follows the transfers, each on one of the workers; null: nothing.
  struct Afterwards {
    // Once all have arrived, also if no caller asks; its status is the posting's.
    std::function<Status()> then;
    // Where one has failed with that: what the posting's status is instead.
    std::function<Status(const Status&)> judge;
  };

  // Starts the transfers, of which there may be none. Where the daemon was restarted
  // since the last call, and has begun nothing, it is asked once more. The session and the workers
  // must outlive it, until it has ended or was abandoned.
  static std::shared_ptr<Posting> Start(Session& session, Workers& workers,
                                        const Requests& requests, Afterwards afterwards);

  // Nothing while it runs; then how it ended: the first failure, after which the other transfers
  // were cancelled. Never blocks.
  std::optional<Status> Outcome();

  // Asks all transfers to end.
  void Cancel();
  // Until nothing moves any more, or that long: false.
  bool WaitForEnd(std::chrono::milliseconds limit);
  // From now on it is CANCELLED for every caller, and uses neither session nor workers.
  void Abandon();

 private:
  struct Part {
    std::shared_ptr<const TransferRequest> request;
    TransferFuture future;  // of nothing: it is about to be asked for
    bool again = false;     // it is asked for once more
    bool ended = false;
  };

  Posting(Session& session, Workers& workers, const Requests& requests, Afterwards afterwards);

  void Begin(Client& client, Part& part) ONECOPY_REQUIRES(mutex_);
  // On a worker, as it may have to connect first.
  void BeginByWorker(size_t number) ONECOPY_REQUIRES(mutex_);
  void Advance();
  // What has ended since the last look.
  void Look() ONECOPY_REQUIRES(mutex_);
  void Ended(Part& part, const Status& status) ONECOPY_REQUIRES(mutex_);
  // All parts have ended: what follows, and then Done.
  void Follow() ONECOPY_REQUIRES(mutex_);
  void CancelLocked() ONECOPY_REQUIRES(mutex_);
  void Done() ONECOPY_REQUIRES(mutex_);

  Session& session_;
  Workers& workers_;
  Mutex mutex_;
  Condition ended_;
  std::vector<Part> parts_ ONECOPY_GUARDED_BY(mutex_);
  size_t left_ ONECOPY_GUARDED_BY(mutex_);
  Status failure_ ONECOPY_GUARDED_BY(mutex_);
  bool cancelled_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool done_ ONECOPY_GUARDED_BY(mutex_) = false;
  Afterwards afterwards_ ONECOPY_GUARDED_BY(mutex_);
  const bool told_of_ends_;  // by the client's thread: what follows must be started
};

}  // namespace onecopy::nixl
