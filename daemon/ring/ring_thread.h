// The thread that serves every ring of the daemon.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/ring/errands.h"
#include "daemon/ring/journal.h"
#include "daemon/ring/long_work.h"
#include "daemon/ring/route.h"
#include "daemon/ring/served_ring.h"
#include "transport/core/base/executor.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::ring {

// A ring in use is looked at again and again, and for `spin` after its last piece of work; then its
// client must send a byte on its socket to be looked at. With no ring in use, and no errand for
// `spin`, the thread sleeps.
//
// Every method may be called on any thread; tasks that are given run on the ring's thread.
class RingThread {
 public:
  using RingId = uint64_t;

  explicit RingThread(std::chrono::nanoseconds spin);
  ~RingThread();
  RingThread(const RingThread&) = delete;
  RingThread& operator=(const RingThread&) = delete;

  // `socket` is the daemon's end: a byte on it wakes. `broken` runs once if the client's numbers
  // stop making sense; nothing more is taken from it then.
  void Add(RingId ring, DaemonEnd end, os::PassedFd socket, std::shared_ptr<Journal> journal,
           Task broken);
  void Install(RingId ring, uint32_t place, std::shared_ptr<Route> route, Task installed);
  // Revoke the route first. `done` runs when nothing of it is under way and it has been let go.
  void Remove(RingId ring, uint32_t place, Task done);
  // Takes nothing more; `done` runs when nothing is under way, and all its routes have been let go.
  void End(RingId ring, Task done);

  // Makes copies that no client of this node asks for: see Errands.
  void Copy(std::shared_ptr<SmallCopyRoute> way, std::vector<Errand> errands);

  // Refuses, from now on, whatever is submitted; or no longer.
  void Drain(bool draining) { draining_.store(draining, std::memory_order_relaxed); }
  // Not on its own thread: ends every ring and joins. Safe to repeat; tasks that wait are dropped.
  void Stop();

 private:
  struct Served {
    ServedRing ring;
    Task broken;
    Task ended;  // set: it is ending
    bool active = false;
  };

  void Wake(RingId id);
  void Activate(Served& served);
  bool Poll();
  // Takes nothing more from it, and says so to both sides.
  void Break(Served& served);
  // True while the ring is to be looked at again.
  bool Look(Served& served, Clock::time_point now, bool* worked);
  void BeginEnd(Served& served);
  void Relax(Clock::duration quiet) const;
  Served* Find(RingId id);

  const std::chrono::nanoseconds spin_;
  std::atomic<bool> draining_{false};
  // The rest: the ring's thread.
  LongWork long_work_;
  std::vector<CopyPiece> pieces_;  // see ServedRing
  Errands errands_{long_work_};
  std::unordered_map<RingId, std::unique_ptr<Served>> rings_;
  std::vector<Served*> active_;
  Clock::time_point last_work_{};
  Clock::time_point last_errand_{};
  os::LoopThread thread_;
};

}  // namespace onecopy::ring
