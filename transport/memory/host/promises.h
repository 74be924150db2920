// Memory that the daemon has promised and the kernel has not given yet: pages come on first touch,
// so what is still untouched must be kept in mind when more is asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::host {

class Promises;

// That a memory file's bytes, or some of them, will have memory when they are touched. Kept by
// the code that may touch them.
class Promise {
 public:
  // Bytes of the file `fd` (borrowed, as long as this lives) that have no memory yet, at most
  // `bytes`.
  static uint64_t MissingBytes(int fd, uint64_t bytes);

  ~Promise();
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  // Any thread, and cheap where nothing has changed: the file may have lost memory since it was
  // promised, and what is missing is then promised again, or RESOURCE_EXHAUSTED (NO_MEMORY).
  Status Renew();

 private:
  friend class Promises;
  Promise(std::shared_ptr<Promises> all, int fd, uint64_t bytes);

  const std::shared_ptr<Promises> all_;
  const int fd_;
  const uint64_t bytes_;
  std::atomic<uint64_t> most_missing_{0};  // that Renew takes without asking
  uint64_t counted_ = 0;                   // what was missing when it was last looked at; of all_
  std::list<Promise*>::iterator place_;
};

// All of this process's. Any thread.
class Promises : public std::enable_shared_from_this<Promises> {
 public:
  // `available`: bytes that this process could still be given; `missing`: Promise::MissingBytes.
  explicit Promises(uint64_t (*available)(),
                    uint64_t (*missing)(int fd, uint64_t bytes) = &Promise::MissingBytes)
      : available_(available), missing_(missing) {}

  // RESOURCE_EXHAUSTED (NO_MEMORY) where the machine, or this process's control group, has not that
  // much left beside what is promised already.
  Result<std::unique_ptr<Promise>> Make(int fd, uint64_t bytes);

  // The same of memory in no file, which is touched at once.
  Status CheckRoom(uint64_t bytes);

 private:
  friend class Promise;
  // Looks at all the files only where what was missing of them when they were last looked at leaves
  // no room: mostly they have got memory since. So one more costs the same, however many there are.
  Status CheckFits(uint64_t missing, const Promise* besides) ONECOPY_REQUIRES(mutex_);
  uint64_t Promised(const Promise* besides) const ONECOPY_REQUIRES(mutex_);
  void Count(Promise& promise, uint64_t missing) ONECOPY_REQUIRES(mutex_);
  Status Renew(Promise& promise, uint64_t missing);
  void Remove(Promise& promise);

  uint64_t (*const available_)();
  uint64_t (*const missing_)(int fd, uint64_t bytes);
  mutable Mutex mutex_;
  std::list<Promise*> promises_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t counted_ ONECOPY_GUARDED_BY(mutex_) = 0;  // of all together
};

}  // namespace onecopy::host
