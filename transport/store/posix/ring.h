// io_uring on a loop's thread.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "onecopy/result.h"
#include "transport/os/event_loop.h"
#include "transport/store/posix/io.h"

namespace onecopy::posix {

class Ring final : public Io {
 public:
  // The loop's thread. What is submitted runs with that thread's rights. FAILED_PRECONDITION
  // (NOT_APPLICABLE) where this process may have no ring: a container, or seccomp.
  static Result<std::unique_ptr<Ring>> Make(os::EventLoop& loop, unsigned depth);
  // The loop's thread, or any once that has ended; with nothing under way.
  ~Ring() override;

  // The loop's thread. Has the kernel's own threads for what it submits run where that thread may;
  // they would run anywhere. False where the kernel (before 5.14) knows no such thing.
  bool KeepWorkersHere();

  // At most `depth` at a time. What the kernel has no room for ends with -EAGAIN.
  void Submit(IoRequest request) override;

 private:
  Ring(os::EventLoop& loop, const io_uring& ring) : loop_(loop), ring_(ring) {}
  void Refuse(IoRequest request);
  void Reap();

  os::EventLoop& loop_;
  io_uring ring_;
  std::unordered_map<uint64_t, IoRequest> running_;
  uint64_t next_ = 1;
};

}  // namespace onecopy::posix
