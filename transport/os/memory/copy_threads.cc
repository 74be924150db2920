#include "transport/os/memory/copy_threads.h"

#include <utility>

namespace onecopy::os {

Result<std::shared_ptr<CopyThreads>> CopyThreads::Make(const std::string& name, unsigned threads) {
  std::vector<std::unique_ptr<LoopThread>> made;
  for (unsigned i = 0; i < threads; ++i) {
    ONECOPY_ASSIGN_OR_RETURN(auto thread, LoopThread::Make(name + "-" + std::to_string(i)));
    made.push_back(std::move(thread));
  }
  return std::shared_ptr<CopyThreads>(new CopyThreads(std::move(made)));
}

std::shared_ptr<CopyThreads> CopyThreads::MakeAtStart(const std::string& name, unsigned threads) {
  std::vector<std::unique_ptr<LoopThread>> made;
  for (unsigned i = 0; i < threads; ++i) {
    made.push_back(std::make_unique<LoopThread>(name + "-" + std::to_string(i)));
  }
  return std::shared_ptr<CopyThreads>(new CopyThreads(std::move(made)));
}

CopyThreads::CopyThreads(std::vector<std::unique_ptr<LoopThread>> threads)
    : threads_(std::move(threads)), busy_(threads_.size(), false) {}

CopyThreads::~CopyThreads() = default;

void CopyThreads::Copy(const Flow& flow, uint64_t channel, uint64_t cost, Task copy) {
  size_t thread = 0;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return;
    waiting_.Push(flow, channel, cost, std::move(copy));
    thread = TakeIdle();
  }
  if (thread == threads_.size()) return;
  threads_[thread]->loop().Post([self = shared_from_this(), thread] { self->TakeTurn(thread); });
}

// The first thread last: it has what follows copies to do, too.
size_t CopyThreads::TakeIdle() {
  const size_t others = threads_.size() - 1;
  for (size_t i = 0; i < threads_.size(); ++i) {
    const size_t thread = i < others ? 1 + (last_ + i) % others : 0;
    if (busy_[thread]) continue;
    busy_[thread] = true;
    if (thread > 0) last_ = thread;
    return thread;
  }
  return threads_.size();
}

// One copy: between two of them the thread does what else is posted to it.
void CopyThreads::TakeTurn(size_t thread) {
  Task copy;
  {
    const MutexLock lock(mutex_);
    if (waiting_.empty()) {
      busy_[thread] = false;
      return;
    }
    copy = waiting_.Pop();
  }
  copy();
  copy = nullptr;
  threads_[thread]->loop().Post([self = shared_from_this(), thread] { self->TakeTurn(thread); });
}

void CopyThreads::RunNow(uint64_t channel) {
  std::vector<Task> all;
  {
    const MutexLock lock(mutex_);
    all = waiting_.TakeChannel(channel);
  }
  if (all.empty()) return;
  executor().Post([all = std::move(all)]() mutable {
    for (Task& copy : all) copy();
  });
}

void CopyThreads::Stop() {
  std::vector<Task> unrun;  // destroyed without the lock
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    unrun = waiting_.TakeAll();
  }
  unrun.clear();
  for (const auto& thread : threads_) thread->StopAndJoin();
}

}  // namespace onecopy::os
