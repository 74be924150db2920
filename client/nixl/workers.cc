#include "client/nixl/workers.h"

#include <string>
#include <system_error>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/threads/signals_blocked.h"

namespace onecopy::nixl {

Workers::~Workers() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    threads.swap(threads_);
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
}

Status Workers::Run(std::function<void()> task) {
  const MutexLock lock(mutex_);
  if (idle_ <= tasks_.size() && threads_.size() < most_) {
    Status started = StartThread();
    if (!started.ok() && threads_.empty()) return started;  // else those that there are do it
  }
  tasks_.push_back(std::move(task));
  changed_.NotifyOne();
  return OkStatus();
}

Status Workers::StartThread() {
  threads_.reserve(most_);  // so that nothing throws but the thread
  const os::SignalsBlocked blocked;
  try {
    threads_.emplace_back([this] { Serve(); });
  } catch (const std::system_error& error) {
    return {Code::kResourceExhausted, reasons::kQuota,
            std::string("starting a thread of NIXL's plug-in: ") + error.what(),
            "raise the limit on threads (ulimit -u)"};
  }
  return OkStatus();
}

void Workers::Serve() {
  MutexLock lock(mutex_);
  while (true) {
    while (tasks_.empty() && !ending_) {
      ++idle_;
      changed_.Wait(mutex_);
      --idle_;
    }
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.Unlock();
    task();
    task = nullptr;
    lock.Lock();
  }
}

}  // namespace onecopy::nixl
