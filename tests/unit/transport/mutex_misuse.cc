// What clang must refuse, one MISUSE at a time; without any of them it must take this
// (cmake/MustNotCompile.cmake).
#include "transport/core/base/mutex.h"

namespace {

using onecopy::MutexLock;

class Counter {
 public:
  int Get() {
    const MutexLock lock(mutex_);
    return Read();
  }
  void AwaitMore() {
    const MutexLock lock(mutex_);
    while (count_ == 0) changed_.Wait(mutex_);
  }
  void Pass() {
    MutexLock lock(mutex_);
    ++count_;
    lock.Unlock();
    lock.Lock();
    ++count_;
  }

#if MISUSE == 1  // a member without its mutex
  int Peek() const { return count_; }
#elif MISUSE == 2  // a function without the mutex that it requires
  int Peek() { return Read(); }
#elif MISUSE == 3  // the wrong mutex
  int Peek() {
    const MutexLock lock(other_);
    return count_;
  }
#elif MISUSE == 4  // after the lock was given up
  void Drop() {
    MutexLock lock(mutex_);
    lock.Unlock();
    ++count_;
  }
#elif MISUSE == 5  // waiting for what is not held
  void Sleep() { changed_.Wait(mutex_); }
#elif MISUSE == 6  // twice
  void Hang() {
    const MutexLock lock(mutex_);
    const MutexLock again(mutex_);
  }
#endif

 private:
  int Read() const ONECOPY_REQUIRES(mutex_) { return count_; }

  onecopy::Mutex mutex_;
  onecopy::Mutex other_;
  onecopy::Condition changed_;
  int count_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

}  // namespace

int main() {
  Counter counter;
  counter.Pass();
  counter.AwaitMore();
  return counter.Get() == 2 ? 0 : 1;
}
