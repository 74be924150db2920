// The state that a TransferFuture shares with the thread that works for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "client/lib/calls/fork_guard.h"
#include "onecopy/async.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Thread-safe, unless a member says otherwise. Waits on a futex, not on a condition variable: a
// child that was forked while a thread waited could not destroy one.
class PendingTransfer : public std::enable_shared_from_this<PendingTransfer> {
 public:
  // `canceller` is called by Cancel, on its thread.
  PendingTransfer(TransferCallbacks callbacks, std::function<void()> canceller);
  virtual ~PendingTransfer() = default;

  bool done();
  bool WaitFor(std::chrono::nanoseconds limit);
  Result<TransferInfo> Get();
  std::optional<TransferInfo> Latest();
  virtual void Cancel();
  Status callback_status() const;

  // Only for the thread that works for it, mostly the library's. Nothing follows End.
  bool wants_updates() const { return callbacks_.on_update != nullptr; }
  void Update(const TransferInfo& transfer);
  void End(Result<TransferInfo> outcome);

  // Says of the calling thread that it runs the callbacks of `loop`, and of this one that `loop`
  // does.
  static void RunsCallbacks(const void* loop);
  // Whether the calling thread runs the callbacks of `loop`.
  static bool IsCallbackOf(const void* loop);
  void set_loop(const void* loop) { loop_ = loop; }

 protected:
  bool has_ended() const { return done_.load(std::memory_order_acquire) != 0; }
  Status CheckProcess() const { return ForkGuard::CheckObject(made_in_, "transfer"); }

  // Of a transfer that makes progress only while a thread asks for its end: looks for the end, and
  // pauses if it has not come, for at most `longest`, and longer the longer that thread has waited.
  // False if the library's thread works for the transfer.
  virtual bool Drive(std::chrono::nanoseconds waited, std::chrono::nanoseconds longest);

 private:
  template <typename Argument>
  void CallBack(const std::function<void(const Argument&)>& callback, const Argument& argument);
  bool InCallback() const;

  const uint64_t made_in_ = ForkGuard::Generation();
  const std::function<void()> canceller_;
  const void* loop_ = nullptr;
  TransferCallbacks callbacks_;  // the library's thread
  std::atomic<uint32_t> done_{0};
  std::atomic<uint32_t> waiters_{0};
  std::optional<Result<TransferInfo>> outcome_;  // before done_ is set; unchanged then
  mutable Mutex mutex_;
  std::optional<TransferInfo> latest_ ONECOPY_GUARDED_BY(mutex_);
  Status callback_status_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
