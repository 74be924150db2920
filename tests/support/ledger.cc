#include "tests/support/ledger.h"

#include <sys/socket.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<uint64_t> g_copied{0};
std::atomic<uint64_t> g_sent{0};
std::atomic<uint64_t> g_received{0};

}  // namespace

extern "C" {

void __real_onecopy_copy_bytes(void* to, const void* from, size_t bytes);
void __real_onecopy_copy_strided(void* to, size_t to_stride, const void* from, size_t from_stride,
                                 size_t bytes, size_t count);
ssize_t __real_sendmsg(int fd, const msghdr* message, int flags);
ssize_t __real_recvmsg(int fd, msghdr* message, int flags);
ssize_t __real_pread(int fd, void* to, size_t bytes, off_t offset);

void __wrap_onecopy_copy_bytes(void* to, const void* from, size_t bytes) {
  g_copied += bytes;
  __real_onecopy_copy_bytes(to, from, bytes);
}

void __wrap_onecopy_copy_strided(void* to, size_t to_stride, const void* from, size_t from_stride,
                                 size_t bytes, size_t count) {
  g_copied += bytes * count;
  __real_onecopy_copy_strided(to, to_stride, from, from_stride, bytes, count);
}

ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  const ssize_t sent = __real_sendmsg(fd, message, flags);
  if (sent > 0) g_sent += static_cast<uint64_t>(sent);
  return sent;
}

ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t received = __real_recvmsg(fd, message, flags);
  if (received > 0) g_received += static_cast<uint64_t>(received);
  return received;
}

ssize_t __wrap_pread(int fd, void* to, size_t bytes, off_t offset) {
  const ssize_t read = __real_pread(fd, to, bytes, offset);
  if (read > 0) g_copied += static_cast<uint64_t>(read);
  return read;
}

}  // extern "C"

namespace onecopy::testing {

Ledger Ledger::Now() { return {g_copied, g_sent, g_received}; }

void Ledger::CountCopy(uint64_t bytes) { g_copied += bytes; }

}  // namespace onecopy::testing
