// Where work runs. Threads of onecopy share no state: they exchange tasks.
#pragma once

#include "transport/core/base/unique_function.h"

namespace onecopy {

using Task = UniqueFunction<void()>;

// One thread with a queue. Tasks posted by one thread run in that thread's order.
class Executor {
 public:
  virtual ~Executor() = default;

  // Any thread; never blocks. A task posted after the executor has stopped is destroyed unrun.
  virtual void Post(Task task) = 0;

  // Any thread: whether the caller is the executor's own thread.
  virtual bool InThread() const = 0;
};

}  // namespace onecopy
