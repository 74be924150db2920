// Work that waits for one thread, in turns by payer.
#pragma once

#include <memory>

#include "daemon/engine/base/owners.h"
#include "transport/core/base/executor.h"

namespace onecopy::engine {

// Any thread; copies are one. Tasks of one payer run in the order in which they were posted; payers
// take turns, one task each, so that ten thousand tasks of one hold another's up by one. Between
// two tasks the executor does whatever else it has to do.
class Turns {
 public:
  // Tasks run on `executor`, which must outlive every call of Post, but not this.
  Turns(Executor& executor);  // NOLINT(google-explicit-constructor)

  // Never blocks. A task that is posted after the executor has stopped is destroyed unrun.
  void Post(const Owner& payer, Task task) const;
  // The same before the payer's others: what a task that has had its turn goes on with.
  void PostNext(const Owner& payer, Task task) const;

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;
};

}  // namespace onecopy::engine
