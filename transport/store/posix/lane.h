// What one user's files have for themselves: a thread, a ring or threads that wait, and a bound on
// what is under way. So whatever a file system never answers holds up its own user alone.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/core/base/uid.h"
#include "transport/os/threads/event_loop.h"
#include "transport/os/threads/pool.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/io.h"
#include "transport/store/posix/ring.h"

namespace onecopy::posix {

class Lane {
 public:
  // Pieces under way at a time, or, without a ring, threads that wait.
  static constexpr unsigned kDepth = 32;
  static constexpr size_t kThreads = 16;

  // Everything is done as this user. `ring`: by io_uring, where that can be had for this user's
  // files too; `held`: what it registers. `cpus`: where its threads run, and the ring's, as far as
  // this process may and the kernel does; empty: anywhere. RESOURCE_EXHAUSTED.
  static Result<std::shared_ptr<Lane>> Make(const Uid& owner, uint32_t gid, bool ring,
                                            const std::shared_ptr<HeldMemory>& held,
                                            const std::string& cpus = {});
  // Any thread but its own, with nothing under way.
  ~Lane();

  os::EventLoop& loop() { return thread_->loop(); }
  bool has_ring() const { return ring_ != nullptr; }
  // Where all that moves bytes was seen to be kept; empty: nowhere.
  const std::string& kept_on() const { return kept_on_; }

  // Any thread but its own: returns once what was posted to the loop has run, and is destroyed.
  void Settle() {
    thread_->RunSync([] {});
  }

  // The loop's thread.
  void Submit(IoRequest request);
  // Of a descriptor that the ring knows from then on, its place there; -1: it does not, or there is
  // no ring. The loop's thread.
  int Register(int fd) {
    return ring_ == nullptr ? RegisteredFiles::kNone : ring_->files().Add(fd);
  }
  void Unregister(int place) {
    if (ring_ != nullptr) ring_->files().Remove(place);
  }
  // Any thread; the task may wait, as this user. False if no thread is available.
  bool Wait(Task task) { return pool_->Post(std::move(task)); }
  // What is then to be said: RESOURCE_EXHAUSTED (NO_MEMORY).
  static Status NoThread();

 private:
  Lane() = default;
  void Begin(IoRequest request);

  std::unique_ptr<os::LoopThread> thread_;
  std::unique_ptr<os::Pool> pool_;
  std::string kept_on_;
  std::unique_ptr<Io> waiting_io_;
  std::unique_ptr<Ring> ring_;  // goes first
  unsigned running_ = 0;
  std::deque<IoRequest> waiting_;
};

}  // namespace onecopy::posix
