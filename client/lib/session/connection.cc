#include "client/lib/session/connection.h"

#include <chrono>
#include <thread>

namespace onecopy::client {
namespace {

// A daemon that a service manager starts again serves within a second.
constexpr std::chrono::seconds kForRestart{10};

}  // namespace

Result<std::shared_ptr<Connection>> Connection::Open(const ConnectOptions& options) {
  const RunDir run_dir = FindRunDir(RunDirHints::FromEnvironment(options.run_dir));
  ONECOPY_ASSIGN_OR_RETURN(SessionRef session, Session::Open(run_dir, options, 1));
  return std::shared_ptr<Connection>(new Connection(run_dir, options, std::move(session)));
}

Connection::Connection(RunDir run_dir, const ConnectOptions& options, SessionRef session)
    : run_dir_(std::move(run_dir)),
      node_(session->attach().node()),
      options_(options),
      session_(std::move(session)) {}

Connection::~Connection() {
  if (CheckProcess().ok()) return;
  // The channel's end would be the parent's, and might wait for threads that are not here.
  static_cast<void>(new SessionRef(std::move(session_)));
}

Result<SessionRef> Connection::Latest() const {
  ONECOPY_RETURN_IF_ERROR(CheckProcess());
  return session();
}

Result<std::shared_ptr<const shim::CudaApi>> Connection::Cuda() {
  ONECOPY_RETURN_IF_ERROR(CheckProcess());
  const MutexLock lock(opening_cuda_);
  if (cuda_ == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(cuda_, shim::LoadCuda(options_.cuda_library));
  }
  return cuda_;
}

std::string Connection::daemon_version() const {
  return CheckProcess().ok() ? session()->attach().version() : std::string();
}

Result<SessionRef> Connection::Current(const std::stop_token& stop) {
  for (;;) {
    Attempt attempt = Try(CallLimit::Clock::now());
    if (!attempt.again || stop.stop_requested()) return attempt.session;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Connection::Attempt Connection::Try(CallLimit::Clock::time_point asked) {
  if (Status forked = CheckProcess(); !forked.ok()) return {std::move(forked)};
  const SessionRef last = session();
  if (!last->Ended()) {
    registrations_.Finish(*last);
    return {last};
  }
  Result<SessionRef> next = Reconnect(asked);
  if (next.ok()) registrations_.Finish(**next);
  const bool again = next.status().reason() == reasons::kDaemonUnreachable && MayWait(*last);
  return {std::move(next), again};
}

bool Connection::MayWait(const Session& ended) const {
  if (!ended.attach().keeps_buffers()) return false;
  const auto left = CallLimit::Left();
  const MutexLock lock(mutex_);
  return (!left || *left > kBetweenTries) && ended_since_ &&
         CallLimit::Clock::now() - *ended_since_ < kForRestart;
}

Result<SessionRef> Connection::Reconnect(CallLimit::Clock::time_point asked) {
  const CallLimit::Time limit = CallLimit::Current();
  MutexLock lock(mutex_);
  if (attaching_ == nullptr && failed_ && failed_->when >= asked) return failed_->why;
  while (const std::shared_ptr<Attaching> others = attaching_) {
    if (!limit) {
      attached_.Wait(mutex_);
    } else if (!attached_.WaitUntil(mutex_, *limit) && !others->outcome) {
      return Status(Code::kDeadlineExceeded, reasons::kDeadline,
                    "attaching to the onecopyd in " + run_dir() + " again took too long",
                    "see in its log what keeps it busy, or allow more time");
    }
    if (others->outcome && others->in_time) return *others->outcome;
  }
  // Others must not wait for ever if something throws.
  struct Ends {
    Connection& self;
    ~Ends() {
      const MutexLock ending(self.mutex_);
      self.attaching_.reset();
      self.attached_.NotifyAll();
    }
  };
  const SessionRef last = session_;
  const auto mine = std::make_shared<Attaching>();
  attaching_ = mine;
  if (!ended_since_) ended_since_ = CallLimit::Clock::now();
  lock.Unlock();
  const Ends ends{*this};
  // Another thread may have been quicker.
  Result<SessionRef> next = last->Ended() ? Attach(*last) : last;
  const bool lives = next.ok() && !(*next)->Ended();
  const MutexLock done(mutex_);
  if (next.ok()) session_ = *next;
  if (lives) {
    ended_since_.reset();
    failed_.reset();
  }
  if (next.ok() && !lives) {
    next = Status(Code::kUnavailable, reasons::kDaemonUnreachable,
                  (*next)->Peer() + " ended the session as soon as it began",
                  "try again; find the reason in the daemon's log");
  }
  mine->in_time = next.ok() || !limit || CallLimit::Clock::now() < *limit;
  if (!next.ok() && mine->in_time) failed_ = Failed{next.status(), CallLimit::Clock::now()};
  mine->outcome = next;
  return next;
}

Result<SessionRef> Connection::Attach(Session& last) {
  // A killed daemon gives no notice: copies that it had requested before may still be carried
  // out, also by a session that an ArrivalWatch keeps.
  last.own_memory().Shut();
  ONECOPY_ASSIGN_OR_RETURN(SessionRef next, Session::Open(run_dir_, options_, last.number() + 1));
  // Before any caller has the session, so that no caller misses what was registered again.
  registrations_.Move(*next);
  return next;
}

Status Connection::Explain(const Session& session, Status failure) const {
  if (!session.EndedBy(failure)) return failure;
  return {
      Code::kUnavailable, reasons::kSessionLost,
      session.Peer() + " ended during the request and may have started it: " + failure.message(),
      "check whether it was done; the next call reconnects, and Client::session() tells what was "
      "lost"};
}

Status Connection::ExplainNames(Status status, const std::string& node,
                                const std::vector<std::string>& names) {
  if (status.reason() != reasons::kBufferNotFound || (!node.empty() && node != node_)) {
    return status;
  }
  const SessionRef last = session();
  if (!last->Ended()) registrations_.Restore(*last, names);
  return registrations_.Explain(std::move(status), names);
}

Status Connection::ExplainEnds(Status status, const TransferRequest& request) {
  status = ExplainNames(std::move(status), request.source.node, {request.source.buffer});
  status = ExplainNames(std::move(status), request.destination.node, {request.destination.buffer});
  for (const auto* more : {&request.more_sources, &request.more_destinations}) {
    for (const Endpoint& end : *more) {
      status = ExplainNames(std::move(status), end.node, {end.buffer});
    }
  }
  return status;
}

Status Connection::ExplainTransfer(const Session& session, Status failure) const {
  if (failure.reason() == reasons::kTransferNotFound && this->session()->number() > 1) {
    return {failure.code(), failure.reason(),
            failure.message() +
                "; it has restarted since this client connected, and does not know this transfer",
            failure.remedy()};
  }
  return Explain(session, std::move(failure));
}

}  // namespace onecopy::client
