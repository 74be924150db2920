// What all objects of one client share: the current session, and what outlives a session.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/attach/run_dir.h"
#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/fork_guard.h"
#include "client/lib/session/known_deadlines.h"
#include "client/lib/session/registrations.h"
#include "client/lib/session/session.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"
#include "transport/shim/cuda.h"

namespace onecopy::client {

// Thread-safe. In a process that was forked from the one that made it, everything fails with
// FORKED, no lock is taken, and the destructor leaves the parent's sockets alone.
class Connection {
 public:
  static Result<std::shared_ptr<Connection>> Open(const ConnectOptions& options);
  ~Connection();

  // FAILED_PRECONDITION (FORKED).
  Status CheckProcess() const { return ForkGuard::CheckObject(made_in_); }

  // The session to use; another one, where the last has ended. DAEMON_UNREACHABLE, or what else
  // attaching may fail with. Blocks for as long as attaching takes where it must. If the daemon of
  // the last session keeps its buffers across restarts, waits for the next one: up to 10 s after
  // the end was noticed, but not after the thread's CallLimit or once `stop` is requested.
  Result<SessionRef> Current(const std::stop_token& stop = {});
  // The same, without that wait.
  struct Attempt {
    Result<SessionRef> session;
    bool again = false;  // it failed, and Current would wait and try again
  };
  // Of a caller that has waited since `asked`: a failure that came after that counts for it, too.
  Attempt Try(CallLimit::Clock::time_point asked);
  static constexpr std::chrono::milliseconds kBetweenTries{20};
  // The last one, without a look whether it has ended: for what fails by itself where it has.
  Result<SessionRef> Latest() const;

  const std::string& node() const { return node_; }
  std::string daemon_version() const;
  const std::string& run_dir() const { return run_dir_.path; }
  // The CUDA driver, opened by the first call that succeeds. As shim::LoadCuda.
  Result<std::shared_ptr<const shim::CudaApi>> Cuda();
  Registrations& registrations() { return registrations_; }
  KnownDeadlines& deadlines() { return deadlines_; }

  // What a call failed with: SESSION_LOST if the session ended during the call: then it is
  // unknown whether the daemon carried out the request.
  Status Explain(const Session& session, Status failure) const;
  // `status` of a call that named these buffers of a node: BUFFER_LOST where one went with a
  // session. One that could not be registered again as the present one began is tried again, which
  // blocks.
  Status ExplainNames(Status status, const std::string& node,
                      const std::vector<std::string>& names);

  // A call that is made once: what it asks for may have been done when it fails with SESSION_LOST.
  template <typename Stub, typename Request, typename Reply>
  Result<Reply> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                     const Request& request, Patience patience) {
    ONECOPY_ASSIGN_OR_RETURN(SessionRef session, Current());
    Result<Reply> reply = session->Call(method, request, patience);
    if (reply.ok()) return reply;
    return Explain(*session, reply.status());
  }

  // A call that may be repeated, because it changes nothing, or nothing more the second time. If
  // the session ends during the call, it is made once more.
  template <typename Stub, typename Request, typename Reply>
  Result<Reply> Ask(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Patience patience) {
    ONECOPY_ASSIGN_OR_RETURN(const SessionRef session, Current());
    Result<Reply> reply = session->Call(method, request, patience);
    if (reply.ok()) return reply;
    if (!session->EndedBy(reply.status())) return reply;
    return Call(method, request, patience);
  }

  // What a transfer's request came back with.
  Status ExplainEnds(Status status, const TransferRequest& request);
  // What a question about one transfer came back with: a new daemon knows none of the last one's.
  Status ExplainTransfer(const Session& session, Status failure) const;

  // All pages of a list: `items(reply)` is the repeated field, `convert` makes a Result of each
  // entry.
  template <typename Value, typename Stub, typename Request, typename Reply, typename Items,
            typename Convert>
  Result<std::vector<Value>> AskAllPages(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Reply*),
                                         Request request, Items items, Convert convert) {
    std::vector<Value> all;
    request.set_page_size(kPageSize);
    for (;;) {
      auto reply = Ask(method, request, Patience::kQuick);
      if (!reply.ok()) return reply.status();
      for (const auto& item : items(*reply)) {
        Result<Value> value = convert(item);
        if (!value.ok()) return value.status();
        all.push_back(std::move(*value));
      }
      if (reply->next_page_token().empty()) return all;
      if (reply->next_page_token() == request.page_token()) {
        return Status(Code::kInternal, reasons::kInternal,
                      "the onecopyd in " + run_dir() +
                          " answers with the same page of a list again and again");
      }
      request.set_page_token(reply->next_page_token());
    }
  }

 private:
  static constexpr int kPageSize = 200;

  Connection(RunDir run_dir, const ConnectOptions& options, SessionRef session);
  // One try to attach again, after the last session has ended. One thread makes it, and those that
  // come meanwhile get what it got, or DEADLINE_EXCEEDED by their own CallLimit. `asked`: see Try.
  Result<SessionRef> Reconnect(CallLimit::Clock::time_point asked);
  // The next one, which may have ended already.
  Result<SessionRef> Attach(Session& last);
  // Whether the next try may be made, instead of a failure.
  bool MayWait(const Session& ended) const;
  SessionRef session() const {
    const MutexLock lock(mutex_);
    return session_;
  }

  const uint64_t made_in_ = ForkGuard::Generation();
  const RunDir run_dir_;
  const std::string node_;
  const ConnectOptions options_;
  Registrations registrations_;
  KnownDeadlines deadlines_;
  mutable Mutex mutex_;
  SessionRef session_ ONECOPY_GUARDED_BY(mutex_);
  // What Reconnect does; null: nothing.
  struct Attaching {
    std::optional<Result<SessionRef>> outcome;  // absent: it is under way
    bool in_time = true;  // false: it may have failed only because its thread had no more time
  };
  std::shared_ptr<Attaching> attaching_ ONECOPY_GUARDED_BY(mutex_);
  Condition attached_;
  struct Failed {
    Status why;
    CallLimit::Clock::time_point when;
  };
  // The last attempt that failed, and not only because its thread had no more time.
  std::optional<Failed> failed_ ONECOPY_GUARDED_BY(mutex_);
  // Since when it has been known that the session has ended.
  std::optional<CallLimit::Clock::time_point> ended_since_ ONECOPY_GUARDED_BY(mutex_);
  Mutex opening_cuda_;
  std::shared_ptr<const shim::CudaApi> cuda_ ONECOPY_GUARDED_BY(opening_cuda_);
};

}  // namespace onecopy::client
