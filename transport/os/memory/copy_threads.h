// Threads that copy, in turns by whose bytes they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/fair_queue.h"
#include "transport/core/base/mutex.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::os {

// What is to be copied waits in one queue, and each thread takes the next of it when it is through
// with one. Any thread, but Stop not on these.
class CopyThreads : public std::enable_shared_from_this<CopyThreads> {
 public:
  // What one copy should have, at most: others wait for its end.
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

  // Named `name`-0 and on. RESOURCE_EXHAUSTED where the process may have no more threads.
  static Result<std::shared_ptr<CopyThreads>> Make(const std::string& name, unsigned threads);
  // While a program starts: throws std::system_error in that case (see LoopThread).
  static std::shared_ptr<CopyThreads> MakeAtStart(const std::string& name, unsigned threads);
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  // Never blocks. `copy`, of `cost` bytes' time, runs on one of the threads. Those of one
  // `channel`, of whatever number, begin in order. After Stop it is destroyed unrun.
  void Copy(const Flow& flow, uint64_t channel, uint64_t cost, Task copy);

  // Those that have not begun run now, without their turn: of a channel whose copies copy nothing
  // any more.
  void RunNow(uint64_t channel);
  // The first thread, for what follows a copy.
  Executor& executor() { return threads_.front()->loop(); }
  size_t size() const { return threads_.size(); }

  // Destroys what waits, and joins the threads. Safe to repeat. Those who made the threads call it,
  // as routes may outlive them for a moment and be let go on one of the threads.
  void Stop();

 private:
  explicit CopyThreads(std::vector<std::unique_ptr<LoopThread>> threads);
  void TakeTurn(size_t thread);
  // One that has nothing to do, which the caller gives a turn; size() where all are busy.
  size_t TakeIdle() ONECOPY_REQUIRES(mutex_);

  const std::vector<std::unique_ptr<LoopThread>> threads_;
  Mutex mutex_;
  FairQueue<Task> waiting_ ONECOPY_GUARDED_BY(mutex_){kFairTurnBytes};
  std::vector<bool> busy_ ONECOPY_GUARDED_BY(mutex_);  // has a turn before it, or is in one
  size_t last_ ONECOPY_GUARDED_BY(mutex_) = 0;         // that was given a turn
  bool stopped_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy::os
