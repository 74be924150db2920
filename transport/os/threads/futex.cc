#include "transport/os/threads/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace onecopy::os {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds limit) {
  timespec wait{};
  wait.tv_sec = limit.count() / 1'000'000'000;
  wait.tv_nsec = limit.count() % 1'000'000'000;
  // Not the private kind: the other process maps the word elsewhere.
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &wait, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word, int count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace onecopy::os
