#include "transport/os/threads/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <system_error>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr Clock::duration kForever = Clock::duration::max();
constexpr int kEventsPerTurn = 64;
// Of the poller, between two at descriptors, which cost a system call.
constexpr int kLooksPerTurn = 16;

UniqueFd OrThrow(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return UniqueFd(fd);
}

// Another one for each watch.
uint64_t NewTag(int fd) {
  static std::atomic<uint32_t> watches{0};
  return uint64_t{++watches} << 32 | static_cast<uint32_t>(fd);
}
int FdOf(uint64_t tag) { return static_cast<int>(tag & UINT32_MAX); }

}  // namespace

// `tag` comes back with each event. A descriptor that a handler closes leaves its number to the
// next one that is opened, perhaps while events of the closed one are still to be looked at.
struct EventLoop::Watched {
  FdHandler handler;
  uint64_t tag;
};

EventLoop::EventLoop()
    : epoll_(OrThrow(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(OrThrow(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = NewTag(wake_.get());
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    (void)OrThrow(-1, "epoll_ctl");
  }
}

EventLoop::~EventLoop() {
  queue_.Close();
  while (callers_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

void EventLoop::Post(Task task) {
  callers_.fetch_add(1, std::memory_order_relaxed);
  if (queue_.Push(std::move(task))) Wake();
  callers_.fetch_sub(1, std::memory_order_release);
}

bool EventLoop::InThread() const {
  return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, so the loop is being woken already.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

EventLoop::TimerId EventLoop::RunAt(Clock::time_point when, Task task) {
  const TimerId id = next_timer_++;
  timers_.emplace(when, std::make_pair(id, std::move(task)));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::CancelTimer(TimerId id) {
  const auto time = timer_times_.find(id);
  if (time == timer_times_.end()) return;
  auto [first, last] = timers_.equal_range(time->second);
  const auto timer = std::find_if(first, last, [&](const auto& t) { return t.second.first == id; });
  if (timer != last) timers_.erase(timer);
  timer_times_.erase(time);
}

Status EventLoop::Watch(int fd, uint32_t epoll_events, FdHandler handler) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = NewTag(fd);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoStatus(errno, "watching a file descriptor");
  }
  watched_[fd] = std::make_shared<Watched>(Watched{std::move(handler), event.data.u64});
  return OkStatus();
}

void EventLoop::Rewatch(int fd, uint32_t epoll_events) {
  const auto watched = watched_.find(fd);
  if (watched == watched_.end()) return;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = watched->second->tag;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::SetPoller(std::function<bool()> poller, Clock::duration spin, Clock::duration nap) {
  poller_ = std::move(poller);
  poller_spin_ = spin;
  poller_nap_ = nap;
}

bool EventLoop::RunTimers() {
  bool any = false;
  const Clock::time_point now = timers_.empty() ? Clock::time_point() : Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.mapped().first);
    node.mapped().second();
    any = true;
  }
  return any;
}

bool EventLoop::RunEpoll(Clock::duration timeout) {
  std::array<epoll_event, kEventsPerTurn> events;
  timespec wait{};
  timespec* limit = nullptr;
  if (timeout != kForever) {
    const auto nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(timeout, Clock::duration(0)))
            .count();
    wait.tv_sec = nanoseconds / 1'000'000'000;
    wait.tv_nsec = nanoseconds % 1'000'000'000;
    limit = &wait;
  }
  // glibc has a name for it only from 2.35 on; the client library goes where older ones are.
  const auto ready = static_cast<int>(::syscall(SYS_epoll_pwait2, epoll_.get(), events.data(),
                                                kEventsPerTurn, limit, nullptr, size_t{0}));
  bool any = false;
  for (int i = 0; i < ready; ++i) {
    const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
    const int fd = FdOf(tag);
    if (fd == wake_.get()) {
      // A thread that woke the loop did so before it goes on: an order that ThreadSanitizer knows,
      // too.
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(fd, &count, sizeof count);
      continue;
    }
    // Looked up again for each event: a handler before this one may have ended the watch.
    const auto watched = watched_.find(fd);
    if (watched == watched_.end() || watched->second->tag != tag) continue;
    const std::shared_ptr<Watched> keep = watched->second;
    keep->handler(events[static_cast<size_t>(i)].events);
    any = true;
  }
  return any;
}

Clock::duration EventLoop::UntilNextTimer() const {
  if (timers_.empty()) return kForever;
  return std::max(timers_.begin()->first - Clock::now(), Clock::duration(0));
}

void EventLoop::Poll() {
  int looks = spinning_ ? kLooksPerTurn : 1;
  do {
    if (!poller_busy_) return;
    poller_busy_ = poller_();
  } while (--looks > 0 && !queue_.Waiting());
}

void EventLoop::Run() {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  Clock::time_point last_work = Clock::now();
  while (!stopping_.load(std::memory_order_acquire)) {
    bool worked = queue_.Drain();
    worked |= RunTimers();
    if (poller_) Poll();
    worked |= std::exchange(poller_found_, false);

    // The time is read only if a poller wants to spin: most loops do not.
    Clock::duration sleep = UntilNextTimer();
    const bool polling = poller_ && poller_busy_;
    const Clock::duration spin = polling ? poller_spin_ : spin_;
    spinning_ = false;
    if (spin > Clock::duration(0) || polling) {
      const Clock::time_point now = Clock::now();
      if (worked) last_work = now;
      if (now - last_work < spin) {
        sleep = Clock::duration(0);
        spinning_ = polling;
      } else if (polling) {
        sleep = std::min(sleep, poller_nap_);
      }
    }
    if (sleep > Clock::duration(0) && !queue_.Arm()) sleep = Clock::duration(0);
    if (RunEpoll(sleep) && spin > Clock::duration(0)) last_work = Clock::now();
  }
  queue_.Close();
  timers_.clear();
  timer_times_.clear();
  watched_.clear();
  poller_ = nullptr;
}

void EventLoop::Stop() {
  callers_.fetch_add(1, std::memory_order_relaxed);
  stopping_.store(true, std::memory_order_release);
  Wake();
  callers_.fetch_sub(1, std::memory_order_release);
}

Result<std::unique_ptr<LoopThread>> LoopThread::Make(std::string name) {
  const std::string what = "making the thread \"" + name + "\"";
  try {
    return std::make_unique<LoopThread>(std::move(name));
  } catch (const std::system_error& failure) {
    const int error = failure.code().value();
    const bool files = error == EMFILE || error == ENFILE;
    return Status(Code::kResourceExhausted, files ? reasons::kOpenFiles : reasons::kNoMemory,
                  what + " of " + ::program_invocation_short_name + ": " + ErrnoText(error),
                  "raise the limits on threads and open files of this process and its user, or end "
                  "other programs of that user");
  }
}

LoopThread::LoopThread(std::string name)
    : thread_([this, name = std::move(name)] {
        ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
        loop_.Run();
      }) {}

LoopThread::~LoopThread() { StopAndJoin(); }

void LoopThread::StopAndJoin() {
  if (!thread_.joinable()) return;
  loop_.Stop();
  thread_.join();
}

void LoopThread::RunSync(Task task) {
  if (loop_.InThread()) return task();
  std::promise<void> done;
  const std::future<void> ended = done.get_future();
  // The promise goes with the task: it must outlive its own set_value(), and ends the waiting also
  // where the task is destroyed unrun.
  loop_.Post([&task, done = std::move(done)]() mutable {
    task();
    done.set_value();
  });
  ended.wait();
}

}  // namespace onecopy::os
