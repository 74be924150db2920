// io_uring on a loop's thread.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "onecopy/result.h"
#include "transport/os/threads/event_loop.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/io.h"
#include "transport/store/posix/registered_files.h"
#include "transport/store/posix/registered_memory.h"

namespace onecopy::posix {

class Ring final : public Io {
 public:
  // The loop's thread. What is submitted runs with that thread's rights. FAILED_PRECONDITION
  // (NOT_APPLICABLE) where this process may have no ring: a container, or seccomp. `held`: memory
  // to be registered, where the kernel does that.
  static Result<std::unique_ptr<Ring>> Make(os::EventLoop& loop, unsigned depth,
                                            std::shared_ptr<HeldMemory> held);
  // The loop's thread, or any once that has ended; with nothing under way.
  ~Ring() override;

  // The loop's thread. Has the kernel's own threads for what it submits run where that thread may;
  // they would run anywhere. False where the kernel (before 5.14) knows no such thing.
  bool KeepWorkersHere();

  // At most `depth` at a time. What the kernel has no room for ends with -EAGAIN.
  void Submit(IoRequest request) override;

  // The loop's thread.
  RegisteredFiles& files() { return files_; }

 private:
  struct Running {
    IoRequest request;
    int part = RegisteredMemory::kNone;  // of the registered memory
  };

  Ring(os::EventLoop& loop, const io_uring& ring, std::shared_ptr<HeldMemory> held);
  void Refuse(IoRequest request);
  void Reap();

  os::EventLoop& loop_;
  io_uring ring_;
  RegisteredFiles files_{ring_};
  const std::shared_ptr<HeldMemory> held_;
  std::shared_ptr<RegisteredMemory> memory_;
  std::unordered_map<uint64_t, Running> running_;
  uint64_t next_ = 1;
};

}  // namespace onecopy::posix
