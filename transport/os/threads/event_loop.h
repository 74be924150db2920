// One thread's work: queued tasks, timers, file descriptors, and a poller for hardware that has
// none.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/task_queue.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

using Clock = std::chrono::steady_clock;

// Post and InThread: any thread. Everything else: the loop's own thread, or before it runs.
class EventLoop final : public Executor {
 public:
  using FdHandler = std::function<void(uint32_t epoll_events)>;
  using TimerId = uint64_t;  // never 0

  // Throws std::system_error when the process has no descriptors left for it: see LoopThread.
  EventLoop();
  // Waits for calls of Post and Stop that have done their work but not returned yet.
  ~EventLoop() override;

  void Post(Task task) override;
  bool InThread() const override;

  TimerId RunAt(Clock::time_point when, Task task);
  TimerId RunAfter(Clock::duration delay, Task task) {
    return RunAt(Clock::now() + delay, std::move(task));
  }
  void CancelTimer(TimerId id);                     // one that has run, or 0, is not an error
  size_t timers() const { return timers_.size(); }  // that have not run

  // Level-triggered. The handler may change or end its own watch.
  Status Watch(int fd, uint32_t epoll_events, FdHandler handler);
  void Rewatch(int fd, uint32_t epoll_events);
  void Unwatch(int fd);

  // Called at least once per turn while it returns true (work outstanding); the loop then polls for
  // `spin`, and after that naps for `nap` between turns instead of sleeping. Wake it with
  // KickPoller after it returned false. The spin begins again whenever it reports with PollerFound
  // that something has ended.
  void SetPoller(std::function<bool()> poller, Clock::duration spin, Clock::duration nap);
  void KickPoller() { poller_busy_ = true; }
  void PollerFound() { poller_found_ = true; }

  // How long to look for more work, without sleeping, after the last piece of it. Zero: sleep at
  // once.
  void SetSpin(Clock::duration spin) { spin_ = spin; }

  // Runs until Stop. What is queued when Stop takes effect is destroyed unrun.
  void Run();
  void Stop();  // any thread

 private:
  struct Watched;

  bool RunTimers();  // true when one ran
  void Poll();
  bool RunEpoll(Clock::duration timeout);  // true when something was ready
  Clock::duration UntilNextTimer() const;
  void Wake();

  UniqueFd epoll_;
  UniqueFd wake_;
  TaskQueue queue_;
  // Threads in the middle of Post or Stop: what they have said may be heard, and the loop be done
  // with, before they have returned.
  std::atomic<int> callers_{0};
  std::atomic<std::thread::id> thread_{};
  std::atomic<bool> stopping_{false};
  std::multimap<Clock::time_point, std::pair<TimerId, Task>> timers_;
  std::unordered_map<TimerId, Clock::time_point> timer_times_;
  TimerId next_timer_ = 1;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::function<bool()> poller_;
  Clock::duration poller_spin_{};
  Clock::duration poller_nap_{};
  bool poller_busy_ = false;
  bool poller_found_ = false;
  bool spinning_ = false;
  Clock::duration spin_{};
};

// A loop with a thread of its own, named in the system's thread lists. The destructor stops and
// joins.
class LoopThread {
 public:
  // RESOURCE_EXHAUSTED where the process may have no more threads or descriptors.
  static Result<std::unique_ptr<LoopThread>> Make(std::string name);

  // For what is made while a program starts: throws std::system_error in that case, which ends the
  // start with a message.
  explicit LoopThread(std::string name);
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  EventLoop& loop() { return loop_; }
  void StopAndJoin();  // any thread but its own; safe to repeat

  // Runs `task` in the loop and waits for it; from inside the loop, runs it at once. A loop that
  // has stopped does not run it.
  void RunSync(Task task);

 private:
  EventLoop loop_;
  std::thread thread_;
};

}  // namespace onecopy::os
