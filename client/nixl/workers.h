// Threads that wait, so that the threads of NIXL's users need not.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "onecopy/status.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// Thread-safe. Tasks begin in the order in which they came.
class Workers {
 public:
  explicit Workers(unsigned most) : most_(most) {}
  // Waits for every task, those that have not begun included.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // A task must not throw. Starts a thread where all that there are have work. Signals of the
  // process are not delivered to them. RESOURCE_EXHAUSTED (QUOTA), and the task is dropped, if
  // no thread exists and none can be started.
  Status Run(std::function<void()> task);

 private:
  void Serve();
  Status StartThread() ONECOPY_REQUIRES(mutex_);

  const unsigned most_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> tasks_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ONECOPY_GUARDED_BY(mutex_);
  size_t idle_ ONECOPY_GUARDED_BY(mutex_) = 0;
  bool ending_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy::nixl
