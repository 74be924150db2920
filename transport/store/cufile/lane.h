// What one user's files have for themselves: a thread on which their reads and writes end, and
// those that wait in the library. So whatever a drive never answers holds up its own user alone.
#pragma once

#include <memory>

#include "onecopy/result.h"
#include "transport/core/base/uid.h"
#include "transport/os/threads/event_loop.h"
#include "transport/os/threads/pool.h"
#include "transport/store/cufile/batches.h"

namespace onecopy::cufile {

class Lane {
 public:
  // Everything is done as this user. RESOURCE_EXHAUSTED.
  static Result<std::shared_ptr<Lane>> Make(const Uid& owner, uint32_t gid, size_t threads,
                                            std::unique_ptr<Batches> batches);
  // Any thread but its own, with nothing under way.
  ~Lane() { thread_->StopAndJoin(); }

  os::EventLoop& loop() { return thread_->loop(); }
  // Any thread but its own: returns once what was posted to the loop has run, and is destroyed.
  void Settle() {
    thread_->RunSync([] {});
  }
  // Any thread; the task may wait, as this user. False if no thread is available.
  bool Wait(Task task) { return pool_->Post(std::move(task)); }
  Batches& batches() { return *batches_; }

 private:
  Lane() = default;

  std::unique_ptr<Batches> batches_;
  std::unique_ptr<os::LoopThread> thread_;
  std::unique_ptr<os::Pool> pool_;
};

}  // namespace onecopy::cufile
