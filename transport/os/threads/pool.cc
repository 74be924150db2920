#include "transport/os/threads/pool.h"

#include <pthread.h>

#include <chrono>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "transport/core/base/mutex.h"

namespace onecopy::os {
namespace {

constexpr std::chrono::seconds kPoolIdle{5};  // then a thread ends

}  // namespace

struct Pool::Shared {
  Shared(std::string name, size_t most_threads, std::function<void()> begin)
      : name(std::move(name)), most_threads(most_threads), begin(std::move(begin)) {}

  const std::string name;
  const size_t most_threads;
  const std::function<void()> begin;
  Mutex mutex;
  Condition more;
  std::deque<Task> tasks ONECOPY_GUARDED_BY(mutex);
  size_t threads ONECOPY_GUARDED_BY(mutex) = 0;
  size_t idle ONECOPY_GUARDED_BY(mutex) = 0;
  bool closed ONECOPY_GUARDED_BY(mutex) = false;

  void Serve() {
    MutexLock lock(mutex);
    while (AwaitTask()) {
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.Unlock();
      task();
      task = nullptr;
      lock.Lock();
    }
    --threads;
  }

  // False when this thread is of no more use.
  bool AwaitTask() ONECOPY_REQUIRES(mutex) {
    const auto deadline = std::chrono::steady_clock::now() + kPoolIdle;
    ++idle;
    while (tasks.empty() && !closed) {
      if (!more.WaitUntil(mutex, deadline)) break;
    }
    --idle;
    return !tasks.empty();
  }
};

Pool::Pool(std::string name, size_t most_threads, std::function<void()> begin)
    : shared_(std::make_shared<Shared>(std::move(name), most_threads, std::move(begin))) {}

Pool::~Pool() {
  std::deque<Task> dropped;
  const MutexLock lock(shared_->mutex);
  shared_->closed = true;
  dropped.swap(shared_->tasks);
  shared_->more.NotifyAll();
}

bool Pool::Post(Task task) {
  const MutexLock lock(shared_->mutex);
  shared_->tasks.push_back(std::move(task));
  if (shared_->idle >= shared_->tasks.size()) {
    shared_->more.NotifyOne();
    return true;
  }
  if (shared_->threads == shared_->most_threads) return true;
  try {
    std::thread([shared = shared_] {
      ::pthread_setname_np(::pthread_self(), shared->name.c_str());
      shared->begin();
      shared->Serve();
    }).detach();
    ++shared_->threads;
    return true;
  } catch (const std::system_error&) {
    if (shared_->threads > 0) return true;  // they come to it
  }
  shared_->tasks.pop_back();
  return false;
}

}  // namespace onecopy::os
