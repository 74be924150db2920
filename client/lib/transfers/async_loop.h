// The one thread of a client that works for its futures.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/lib/session/connection.h"
#include "client/lib/transfers/stream_orders.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

class RingPending;
class TransferCall;

// What a completion queue's tag points to.
class Event {
 public:
  virtual void Happened(bool ok) = 0;

 protected:
  ~Event() = default;
};

// Waits in gRPC's completion queue, and beside it on the ring for as long as a transfer is
// under way there.
class AsyncLoop : public std::enable_shared_from_this<AsyncLoop> {
 public:
  explicit AsyncLoop(std::shared_ptr<Connection> connection);
  ~AsyncLoop();

  // Any thread, as all down to Close. Starts the thread where there is none yet. CANCELLED once
  // closed, RESOURCE_EXHAUSTED where there can be no thread.
  Status Open();
  // After Open. The call begins, or, where it is on a ring already, is looked after there.
  // CANCELLED once closed.
  Status Add(std::shared_ptr<TransferCall> call);
  // As Add, but the call begins with Release: until then Cancel and Close end it. Forget, instead
  // of Release, drops it without reporting an end.
  Status Hold(std::shared_ptr<TransferCall> call);
  void Release(const std::shared_ptr<TransferCall>& call);
  void Forget(const std::shared_ptr<TransferCall>& call);
  // One for all transfers of this client; as StreamOrders::Make.
  Result<std::shared_ptr<StreamOrders>> Streams(std::shared_ptr<const shim::CudaApi> api);
  // CANCELLED once closed.
  Status CheckOpen();
  // To be ended with the loop. It is not kept by it. CANCELLED once closed.
  Status AddOnRing(const std::shared_ptr<RingPending>& pending);
  void Cancel(const std::shared_ptr<TransferCall>& call);
  // Ends every call with CANCELLED, and waits until all callbacks have returned; on the thread
  // itself that happens after the present callback has. Where the thread waits for a daemon, that
  // is waited for at most 5 s: then it ends the calls later.
  void Close();
  // The last use of it: Close, and in a child of the process that made it nothing at all.
  static void End(std::shared_ptr<AsyncLoop> loop);

  // The thread's, as all that follow.
  Connection& connection() { return *connection_; }
  grpc::CompletionQueue* queue() { return &queue_; }
  void WatchRing(TransferCall* call);
  // Of what may wait for a daemon, and runs no callback: while it lives.
  class Waits {
   public:
    explicit Waits(AsyncLoop& loop) : loop_(loop) { loop_.NoteWaits(true); }
    ~Waits() { loop_.NoteWaits(false); }

   private:
    AsyncLoop& loop_;
  };
  // Nothing uses the call any more, once what it is called from has returned.
  void Finished(TransferCall* call) { finished_.push_back(call); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kLeastSweep = 64;

  struct Alarm final : Event {
    explicit Alarm(AsyncLoop& loop) : loop(loop) {}
    void Happened(bool ok) override;
    AsyncLoop& loop;
    grpc::Alarm alarm;
  };

  void Run();
  void NoteWaits(bool waits);
  // Whether the thread has ended, or has no more than its last steps to do.
  bool AwaitEnd();
  void Wake() ONECOPY_REQUIRES(mutex_);
  void TakeInbox();
  // Whether a transfer on the ring ended. With `may_wait`, waits a moment for one.
  void LookAtRings(bool may_wait);
  void Sweep();

  const std::shared_ptr<Connection> connection_;
  grpc::CompletionQueue queue_;
  std::unordered_map<TransferCall*, std::shared_ptr<TransferCall>> calls_;  // the thread's
  std::vector<TransferCall*> finished_;                                     // the thread's
  std::vector<TransferCall*> on_ring_;                                      // the thread's
  Clock::time_point ring_moved_;                                            // the thread's
  bool abandoned_ = false;  // the thread's: the calls, once
  bool shut_down_ = false;  // the thread's

  Mutex mutex_;
  Alarm alarm_{*this};
  bool alarm_set_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool closing_ ONECOPY_GUARDED_BY(mutex_) = false;
  struct Added {
    std::shared_ptr<TransferCall> call;
    Clock::time_point when;
  };
  std::vector<Added> added_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<TransferCall>> cancelled_ ONECOPY_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<TransferCall>> held_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<TransferCall>> dropped_ ONECOPY_GUARDED_BY(mutex_);  // of these
  std::shared_ptr<StreamOrders> streams_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<RingPending>> on_ring_pending_ ONECOPY_GUARDED_BY(mutex_);
  size_t sweep_pending_at_ ONECOPY_GUARDED_BY(mutex_) = kLeastSweep;
  std::thread thread_ ONECOPY_GUARDED_BY(mutex_);
  Condition changed_;
  bool waits_ ONECOPY_GUARDED_BY(mutex_) = false;  // the thread, for a daemon
  bool over_ ONECOPY_GUARDED_BY(mutex_) = false;   // it has ended; its last steps may still run
};

}  // namespace onecopy::client
