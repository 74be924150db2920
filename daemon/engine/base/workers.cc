#include "daemon/engine/base/workers.h"

namespace onecopy::engine {

Status Workers::Post(const WorkQueue& queue, Task& work, bool next) {
  Task unrun;  // destroyed without the lock
  const MutexLock lock(mutex_);
  if (stopped_) {
    unrun = std::move(work);
    return OkStatus();
  }
  auto worker = threads_.find(queue.key);
  if (worker == threads_.end()) {
    ONECOPY_ASSIGN_OR_RETURN(auto made,
                             os::LoopThread::Make(name_ + "-" + std::to_string(threads_.size())));
    Turns turns(made->loop());
    worker = threads_.emplace(queue.key, Worker{std::move(made), std::move(turns)}).first;
  }
  const Turns& turns = worker->second.turns;
  if (next) {
    turns.PostNext(queue.payer, std::move(work));
  } else {
    turns.Post(queue.payer, std::move(work));
  }
  return OkStatus();
}

RegionRef Workers::Share(const WorkQueue& queue, std::unique_ptr<Region> region) {
  return ShareAny(queue, std::move(region));
}

void Workers::StopAndJoin() {
  std::map<std::string, Worker> threads;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    threads.swap(threads_);
  }
  for (auto& [key, worker] : threads) worker.thread->StopAndJoin();
}

}  // namespace onecopy::engine
