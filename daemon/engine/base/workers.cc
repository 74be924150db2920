#include "daemon/engine/base/workers.h"

namespace onecopy::engine {

Status Workers::Post(const std::string& key, Task& work) {
  Task unrun;  // destroyed without the lock
  const MutexLock lock(mutex_);
  if (stopped_) {
    unrun = std::move(work);
    return OkStatus();
  }
  auto thread = threads_.find(key);
  if (thread == threads_.end()) {
    ONECOPY_ASSIGN_OR_RETURN(auto made,
                             os::LoopThread::Make("work-" + std::to_string(threads_.size())));
    thread = threads_.emplace(key, std::move(made)).first;
  }
  thread->second->loop().Post(std::move(work));
  return OkStatus();
}

RegionRef Workers::Share(const std::string& key, std::unique_ptr<Region> region) {
  return ShareAny(key, std::move(region));
}

void Workers::StopAndJoin() {
  std::map<std::string, std::unique_ptr<os::LoopThread>> threads;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  for (auto& [key, thread] : threads) thread->StopAndJoin();
}

}  // namespace onecopy::engine
