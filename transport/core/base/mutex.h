// A mutex that the compiler knows: what is declared ONECOPY_GUARDED_BY it is not touched without
// it, and what ONECOPY_REQUIRES it is not called without it, or clang's build fails
// (-Wthread-safety). For gcc the words are empty.
//
// What follows a lock is checked function by function; a lambda is a function of its own, so what
// needs the mutex stands in the function that holds it, or says AssertHeld. Constructors and
// destructors are not checked: no other thread has the object then.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ONECOPY_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define ONECOPY_THREAD_ATTRIBUTE(attribute)
#endif

// Of a member: it is read and written with this mutex held alone.
#define ONECOPY_GUARDED_BY(mutex) ONECOPY_THREAD_ATTRIBUTE(guarded_by(mutex))
// Of a function: its caller holds this mutex.
#define ONECOPY_REQUIRES(mutex) ONECOPY_THREAD_ATTRIBUTE(requires_capability(mutex))

namespace onecopy {

// Locked by MutexLock alone.
class ONECOPY_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Tells the compiler, which must take it on trust: in a lambda that is called with it held.
  void AssertHeld() const ONECOPY_THREAD_ATTRIBUTE(assert_capability(this)) {}

 private:
  friend class Condition;
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds the mutex from here to the end of the block, but between Unlock and Lock.
class ONECOPY_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ONECOPY_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : held_(mutex.mutex_) {}
  ~MutexLock() ONECOPY_THREAD_ATTRIBUTE(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ONECOPY_THREAD_ATTRIBUTE(release_capability()) { held_.unlock(); }
  void Lock() ONECOPY_THREAD_ATTRIBUTE(acquire_capability()) { held_.lock(); }

 private:
  std::unique_lock<std::mutex> held_;
};

// What threads that hold a mutex wait for. A wait may end for no reason: it stands in a loop that
// looks,
//
//   while (tasks_.empty()) changed_.Wait(mutex_);
class Condition {
 public:
  void Wait(Mutex& mutex) ONECOPY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    static_cast<void>(held.release());
  }
  // False once it is later than that.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      ONECOPY_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(held, deadline) == std::cv_status::no_timeout;
    static_cast<void>(held.release());
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace onecopy
