// Finds out whether the daemon still answers, for threads that wait at a ring.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "transport/core/base/mutex.h"

namespace onecopy::client {

// A stopped daemon keeps its sockets open and completes nothing, so a ring does not show that it
// has stopped. A thread that has heard nothing for half of the limit therefore sends the daemon a
// question that it answers at once, in the background. If no answer comes in the other half, the
// daemon is silent. Thread-safe.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  // Begins a call with the context, and calls `answered` once, when it has ended.
  using Ask = std::function<void(grpc::ClientContext& context,
                                 std::function<void(const grpc::Status&)> answered)>;

  Silence(std::chrono::milliseconds limit, Ask ask);
  // Ends the call that is under way; not on a thread of gRPC's.
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  // The daemon has done something.
  void NoteHeard();
  // What was found out last. Costs nothing.
  bool lasts() const { return lasts_.load(std::memory_order_relaxed); }
  // The same, and finds out more where it is time. Never blocks.
  bool Look();

  std::chrono::milliseconds limit() const { return limit_; }

 private:
  void Answered(const grpc::Status& status);

  const std::chrono::milliseconds limit_;
  const Ask ask_;
  std::atomic<bool> lasts_{false};
  std::atomic<Clock::time_point> heard_{Clock::now()};
  Mutex mutex_;
  Condition changed_;
  Clock::time_point asked_ ONECOPY_GUARDED_BY(mutex_);
  bool asking_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::ClientContext> context_ ONECOPY_GUARDED_BY(mutex_);  // of the last call
};

}  // namespace onecopy::client
