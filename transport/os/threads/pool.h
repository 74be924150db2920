// Threads that wait for files.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "transport/core/base/executor.h"

namespace onecopy::os {

// Any thread. Tasks run in the order in which they were posted, several at a time. The threads are
// made when they are needed and end when they are not; they are not joined, as a file system may
// never answer them, so tasks must keep what they use.
class Pool {
 public:
  // Each thread runs `begin` first. Where none can be made the task is left to those that there
  // are.
  Pool(std::string name, size_t most_threads, std::function<void()> begin);
  // What has not begun is dropped.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // False without a thread, if none can be made.
  bool Post(Task task);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace onecopy::os
