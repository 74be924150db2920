#include "daemon/engine/base/turns.h"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "transport/core/base/fair_queue.h"
#include "transport/core/base/mutex.h"

namespace onecopy::engine {
namespace {

// Payers whose texts have one hash share turns.
uint64_t FlowOf(const Owner& payer) {
  const size_t node = std::hash<std::string>()(payer.node);
  const size_t where = std::hash<std::string>()(payer.uid.namespaces);
  return (node * 31 + where) * 31 + payer.uid.number;
}

}  // namespace

struct Turns::Queue : std::enable_shared_from_this<Queue> {
  explicit Queue(Executor& executor) : executor(executor) {}

  // The executor's work for one task; where it is destroyed unrun, so are all tasks.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_ != nullptr) queue_->Close();
    }
    void operator()() { std::exchange(queue_, nullptr)->RunOne(); }

   private:
    std::shared_ptr<Queue> queue_;
  };

  void RunOne() {
    Task task;
    {
      const MutexLock lock(mutex);
      task = waiting.Pop();
    }
    task();
    task = nullptr;
    {
      const MutexLock lock(mutex);
      if (waiting.empty()) {
        posted = false;
        return;
      }
    }
    executor.Post(Turn(shared_from_this()));
  }

  void Post(const Owner& payer, bool next, Task task) {
    {
      const MutexLock lock(mutex);
      if (closed) return;
      const uint64_t flow = FlowOf(PayerOf(payer));
      if (next) {
        waiting.Join(flow, 1, 0).PushFirst(1, std::move(task));
      } else {
        waiting.Join(flow, 1, 0).Push(1, std::move(task));
      }
      if (std::exchange(posted, true)) return;
    }
    executor.Post(Turn(shared_from_this()));
  }

  void Close() {
    std::vector<Task> unrun;  // destroyed without the lock
    const MutexLock lock(mutex);
    closed = true;
    const auto all = [](const Task&) { return true; };
    waiting.ForEach([&](fair_queue::Line<Task>& line) { line.TakeIf(all, &unrun); });
  }

  Executor& executor;
  Mutex mutex;
  fair_queue::Turns<Task, fair_queue::Line<Task>> waiting ONECOPY_GUARDED_BY(mutex){1};
  bool posted ONECOPY_GUARDED_BY(mutex) = false;  // there is a Turn
  bool closed ONECOPY_GUARDED_BY(mutex) = false;
};

Turns::Turns(Executor& executor) : queue_(std::make_shared<Queue>(executor)) {}

void Turns::Post(const Owner& payer, Task task) const {
  queue_->Post(payer, false, std::move(task));
}

void Turns::PostNext(const Owner& payer, Task task) const {
  queue_->Post(payer, true, std::move(task));
}

}  // namespace onecopy::engine
