#include "daemon/engine/workers.h"

namespace onecopy::engine {

void Workers::Post(const std::string& key, Task work) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  std::unique_ptr<os::LoopThread>& thread = threads_[key];
  if (thread == nullptr) {
    thread = std::make_unique<os::LoopThread>("work-" + std::to_string(threads_.size() - 1));
  }
  thread->loop().Post(std::move(work));
}

RegionRef Workers::Share(const std::string& key, std::unique_ptr<Region> region) {
  return ShareAny(key, std::move(region));
}

void Workers::StopAndJoin() {
  std::map<std::string, std::unique_ptr<os::LoopThread>> threads;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  for (auto& [key, thread] : threads) thread->StopAndJoin();
}

}  // namespace onecopy::engine
