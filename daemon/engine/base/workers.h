// Threads for slow calls: allocation, registration, pinning, checksums, giving memory back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/base/turns.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Where slow calls wait: of which device or kind of memory, and on whose account.
struct WorkQueue {
  WorkQueue(std::string key)  // NOLINT(google-explicit-constructor)
      : key(std::move(key)) {}
  WorkQueue(const char* key)  // NOLINT(google-explicit-constructor)
      : key(key) {}
  WorkQueue(std::string key, Owner payer) : key(std::move(key)), payer(std::move(payer)) {}

  std::string key;
  Owner payer = WholeNode({});  // the daemon itself
};

// One thread per key, made when it is first used: a device that hangs in its driver holds up its
// own calls only. Payers take turns on it (see Turns). Any thread may ask.
//
// Where no thread can be made, work that has a reply fails, and what only gives something back is
// done on the thread that asks: late is better than never.
class Workers {
 public:
  // Replies run on `engine`; threads are called `name`-0 and so on.
  explicit Workers(Executor& engine, std::string name = "work")
      : engine_(engine), name_(std::move(name)) {}

  // RESOURCE_EXHAUSTED where the key has no thread and none can be made; `work` is then left as it
  // was. Once they have been joined, OK, and the work is not done. `next`: what work that has had
  // its turn goes on with, before the payer's other work.
  Status Post(const WorkQueue& queue, Task& work, bool next = false);

  // Runs `work` (a callable that returns Result<T>) and hands its outcome to `reply` on the
  // engine's thread.
  template <typename T, typename F>
  void Run(const WorkQueue& queue, F work, Reply<T> reply) {
    auto answer = std::make_shared<Reply<T>>(std::move(reply));
    Task task = [this, work = std::move(work), answer]() mutable {
      Answer<T>(std::move(answer), work());
    };
    if (Status posted = Post(queue, task); !posted.ok()) Answer<T>(std::move(answer), posted);
  }

  // Shares a region; when the last reference goes, wherever that is, it is given back on the key's
  // thread.
  RegionRef Share(const WorkQueue& queue, std::unique_ptr<Region> region);
  // Likewise for anything whose destructor may block.
  template <typename T>
  std::shared_ptr<T> ShareAny(const WorkQueue& queue, std::unique_ptr<T> object) {
    return std::shared_ptr<T>(object.release(), [this, queue](T* last) {
      Task give_back = [last = std::unique_ptr<T>(last)]() mutable { last.reset(); };
      if (!Post(queue, give_back).ok()) give_back();
    });
  }

  // Joins the threads; what is asked for afterwards is destroyed on the caller's thread, unrun.
  void StopAndJoin();

 private:
  template <typename T>
  void Answer(std::shared_ptr<Reply<T>> reply, Result<T> result) {
    engine_.Post([result = std::move(result), reply = std::move(reply)]() mutable {
      (*reply)(std::move(result));
    });
  }

  struct Worker {
    std::unique_ptr<os::LoopThread> thread;
    Turns turns;
  };

  Executor& engine_;
  const std::string name_;
  Mutex mutex_;
  std::map<std::string, Worker> threads_ ONECOPY_GUARDED_BY(mutex_);
  bool stopped_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy::engine
