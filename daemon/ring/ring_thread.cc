#include "daemon/ring/ring_thread.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <array>
#include <ctime>
#include <utility>

#include "transport/os/sockets/unix_socket.h"

namespace onecopy::ring {
namespace {

// How long rings are looked at before the thread hears of anything else.
constexpr std::chrono::microseconds kTurn{20};
// How long nothing may happen before the thread offers its processor to others.
constexpr std::chrono::microseconds kPolite{5};
constexpr long kNapNanoseconds = 20'000;
constexpr unsigned long kTimerSlackNanoseconds = 1000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

RingThread::RingThread(std::chrono::nanoseconds spin) : spin_(spin), thread_("ring") {
  pieces_.reserve(kMostPieces);
  thread_.loop().Post([this] {
    ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
    thread_.loop().SetPoller([this] { return Poll(); }, Clock::duration(0), Clock::duration(0));
  });
}

RingThread::~RingThread() { Stop(); }

RingThread::Served* RingThread::Find(RingId id) {
  const auto found = rings_.find(id);
  return found == rings_.end() ? nullptr : found->second.get();
}

void RingThread::Add(RingId id, DaemonEnd end, os::PassedFd socket,
                     std::shared_ptr<Journal> journal, Task broken) {
  thread_.loop().Post([this, id, end = std::move(end), socket = std::move(socket),
                       journal = std::move(journal), broken = std::move(broken)]() mutable {
    auto served = std::unique_ptr<Served>(new Served{
        ServedRing(std::move(end), std::move(socket), std::move(journal), long_work_, pieces_),
        std::move(broken),
        {}});
    const int fd = served->ring.socket();
    rings_.emplace(id, std::move(served));
    const Status watched = thread_.loop().Watch(fd, EPOLLIN, [this, id](uint32_t) { Wake(id); });
    // Nothing would wake it: the client goes on by gRPC.
    if (!watched.ok()) rings_.at(id)->ring.End(State::kEnded);
  });
}

void RingThread::Wake(RingId id) {
  Served* served = Find(id);
  if (served == nullptr) return;
  std::array<char, 4096> bytes;
  // Descriptors that came along would be closed by this thread, and that may take for ever.
  const os::PlainBytes plain = os::ReceivePlain(served->ring.socket(), bytes.data(), bytes.size());
  if (plain.descriptors) return Break(*served);
  const ssize_t got = plain.count;
  if (got == 0) thread_.loop().Unwatch(served->ring.socket());  // the session's end will follow
  if (got > 0) Activate(*served);
}

void RingThread::Activate(Served& served) {
  if (served.active) return;
  served.active = true;
  served.ring.last_work = Clock::now();
  active_.push_back(&served);
  thread_.loop().KickPoller();
}

void RingThread::Install(RingId id, uint32_t place, std::shared_ptr<Route> route, Task installed) {
  thread_.loop().Post(
      [this, id, place, route = std::move(route), installed = std::move(installed)]() mutable {
        if (Served* served = Find(id)) served->ring.Install(place, std::move(route));
        installed();
      });
}

void RingThread::Remove(RingId id, uint32_t place, Task done) {
  thread_.loop().Post([this, id, place, done = std::move(done)]() mutable {
    Served* served = Find(id);
    if (served == nullptr) return done();
    served->ring.Remove(place, std::move(done));
  });
}

void RingThread::End(RingId id, Task done) {
  thread_.loop().Post([this, id, done = std::move(done)]() mutable {
    Served* served = Find(id);
    if (served == nullptr) return done();
    served->ended = [this, id, done = std::move(done)]() mutable {
      rings_.erase(id);
      done();
    };
    thread_.loop().Unwatch(served->ring.socket());
    served->ring.End(State::kEnded);
    Activate(*served);
  });
}

void RingThread::Copy(std::shared_ptr<SmallCopyRoute> way, std::vector<Errand> errands) {
  thread_.loop().Post([this, way = std::move(way), errands = std::move(errands)]() mutable {
    errands_.Begin(std::move(way), std::move(errands));
    last_work_ = Clock::now();
    thread_.loop().KickPoller();
  });
}

void RingThread::Break(Served& served) {
  thread_.loop().Unwatch(served.ring.socket());
  served.ring.Break();
  served.broken();
}

bool RingThread::Look(Served& served, Clock::time_point now, bool* worked) {
  const bool was_broken = served.ring.broken();
  const bool some = served.ended ? served.ring.Finish()
                                 : served.ring.Turn(draining_.load(std::memory_order_relaxed));
  if (some) {
    served.ring.last_work = now;
    *worked = true;
  }
  if (served.ring.under_way() > 0) return true;
  if (served.ended) return false;
  if (served.ring.broken() && !was_broken) Break(served);
  if (served.ring.broken()) return false;
  return now - served.ring.last_work < spin_ || !served.ring.Sleep();
}

bool RingThread::Poll() {
  Clock::time_point now = Clock::now();
  const Clock::time_point until = now + kTurn;
  do {
    bool worked = false;
    for (size_t i = 0; i < active_.size();) {
      Served& served = *active_[i];
      if (Look(served, now, &worked)) {
        ++i;
        continue;
      }
      served.active = false;
      active_[i] = active_.back();
      active_.pop_back();
      // The last thing that is done with it: it may go.
      if (Task ended = std::move(served.ended)) ended();
    }
    if (errands_.Finish()) {
      worked = true;
      last_errand_ = now;
    }
    // Where one errand has ended, the next often follows: its node asks again as soon as it hears.
    const bool idle = active_.empty() && !errands_.any();
    if (idle && now - last_errand_ >= spin_) return false;
    if (worked) {
      last_work_ = now;
    } else {
      Relax(now - last_work_);
    }
    now = Clock::now();
  } while (now < until);
  return true;
}

void RingThread::Relax(Clock::duration quiet) const {
  if (quiet < kPolite) return Pause();
  if (quiet < spin_) {
    ::sched_yield();
    return;
  }
  // Something takes long: a GPU that is shared, or that hangs.
  const timespec nap{0, kNapNanoseconds};
  ::nanosleep(&nap, nullptr);
}

void RingThread::Stop() {
  thread_.RunSync([this] {
    for (auto& [id, served] : rings_) {
      while (served->ring.under_way() > 0) {
        if (!served->ring.Finish()) Relax(spin_);
      }
      served->ring.End(State::kEnded);
    }
    errands_.Cancel();
    while (errands_.any()) {
      if (!errands_.Finish()) Relax(spin_);
    }
    active_.clear();
    rings_.clear();
  });
  thread_.StopAndJoin();
}

}  // namespace onecopy::ring
