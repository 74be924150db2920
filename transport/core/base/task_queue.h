// The one way in which threads hand work to each other: many producers, one consumer.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"

namespace onecopy {

class TaskQueue {
 public:
  // Any thread. True when the consumer may be asleep and must be woken (once per nap, so that a
  // burst of tasks costs one wake-up). False after Close(); the task is then destroyed by the
  // caller's thread.
  [[nodiscard]] bool Push(Task task) {
    const MutexLock lock(mutex_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    waiting_.store(true, std::memory_order_relaxed);
    return std::exchange(asleep_, false);
  }

  // Consumer: runs what was queued when it was called; true when there was something. Tasks queued
  // meanwhile wait for the next call, so that a task that re-posts itself starves no other task.
  bool Drain() {
    {
      const MutexLock lock(mutex_);
      running_.swap(tasks_);
      waiting_.store(false, std::memory_order_relaxed);
    }
    for (Task& task : running_) {
      task();
      task = nullptr;  // what it captured goes before the next one runs
    }
    const bool any = !running_.empty();
    running_.clear();
    return any;
  }

  // Consumer, between two calls of Drain: whether the next one will find something. A hint without
  // the lock, which may come a little late.
  bool Waiting() const { return waiting_.load(std::memory_order_relaxed); }

  // Consumer, before it sleeps: true when the queue is empty and the next Push will ask for a
  // wake-up.
  [[nodiscard]] bool Arm() {
    const MutexLock lock(mutex_);
    asleep_ = tasks_.empty();
    return asleep_;
  }

  // Consumer, at its end: refuses what comes later and destroys what is queued, outside the lock.
  void Close() {
    std::vector<Task> unrun;
    const MutexLock lock(mutex_);
    closed_ = true;
    unrun.swap(tasks_);
  }

 private:
  Mutex mutex_;
  std::vector<Task> tasks_ ONECOPY_GUARDED_BY(mutex_);
  bool asleep_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool closed_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::vector<Task> running_;  // consumer only
  std::atomic<bool> waiting_{false};
};

}  // namespace onecopy
