// One thread tells another that something has happened.
#pragma once

#include <condition_variable>
#include <mutex>

namespace onecopy::testing {

// Set once. May be destroyed as soon as Wait has returned, also while Set is on its last steps,
// which a promise may not.
class Event {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;  // guarded by mutex_
};

}  // namespace onecopy::testing
