#include "transport/core/base/mutex.h"

#include <array>
#include <thread>

#include "tests/support/catch.h"

using onecopy::Condition;
using onecopy::Mutex;
using onecopy::MutexLock;

namespace {

class Counter {
 public:
  void Add() {
    const MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void AwaitAtLeast(int count) {
    const MutexLock lock(mutex_);
    while (count_ < count) changed_.Wait(mutex_);
  }
  // What it is meanwhile, while this holds no lock.
  int AddWithout() {
    MutexLock lock(mutex_);
    const int before = count_;
    lock.Unlock();
    Add();
    lock.Lock();
    return count_ - before;
  }
  bool AwaitUntil(int count, std::chrono::steady_clock::time_point deadline) {
    const MutexLock lock(mutex_);
    while (count_ < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
    return true;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  int count_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

}  // namespace

TEST_CASE("a mutex is one thread's at a time, and waiting gives it away") {
  constexpr int kEach = 1000;
  Counter counter;
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) {
    thread = std::thread([&] {
      for (int i = 0; i < kEach; ++i) counter.Add();
    });
  }
  counter.AwaitAtLeast(4 * kEach);
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(counter.AwaitUntil(4 * kEach + 1, std::chrono::steady_clock::now()));
  CHECK(counter.AwaitUntil(4 * kEach, std::chrono::steady_clock::now()));
}

TEST_CASE("a lock that was given up is held no more, and not given back twice") {
  Counter counter;
  CHECK(counter.AddWithout() == 1);  // else it would wait for itself
  CHECK(counter.AddWithout() == 1);
}
