// Whether the daemon answers, for those who wait for it where nothing tells them: at a ring.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "transport/core/mutex.h"

namespace onecopy::client {

// A daemon that is stopped keeps its sockets, and completes nothing. So it is asked something that
// it always answers at once, in the background, by whoever waits and has heard nothing for half of
// the limit; without an answer in the other half it is silent. Thread-safe.
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
