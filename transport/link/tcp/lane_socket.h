// Where a lane's bytes enter and leave this process. What is above it deals in frames, what is
// below it is the kernel: whatever stands between the two (encryption, say) belongs here.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <chrono>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/os/base/unique_fd.h"
#include "transport/tls/stream.h"

namespace onecopy::tcp {

// sendmsg that neither waits nor raises SIGPIPE: the one call that takes payload out of memory. A
// function of its own for the sake of ThreadSanitizer (see tests/support/tsan.supp): the bytes may
// be written again as soon as the peer says that it has them, an order that only the network knows.
[[gnu::noinline]] ssize_t SendVector(int fd, iovec* vector, size_t count, int flags);

// One connected socket, from its greeting on. One thread at a time; nothing here waits.
class LaneSocket {
 public:
  LaneSocket() = default;
  explicit LaneSocket(os::UniqueFd fd) : fd_(std::move(fd)) {}

  explicit operator bool() const { return static_cast<bool>(fd_); }
  // To be watched, and for the socket's own options; bytes go by the calls below.
  int fd() const { return fd_.get(); }

  // What goes through it from now on is encrypted with these keys, by the kernel or by this
  // process. `presented`: the certificates of the other end.
  Status Encrypt(const tls::SessionKeys& keys, bool by_kernel, tls::Chain presented);
  bool encrypted() const { return !cipher_.empty(); }
  const std::string& cipher() const { return cipher_; }  // empty: it is plain text
  const tls::Chain& presented() const { return presented_; }

  // As recvmsg and sendmsg: how many bytes, or -1 and errno; EAGAIN where it would have to wait.
  // EFAULT: memory of the first part that is not empty is not available. `more`: what follows comes
  // at once.
  ssize_t Receive(iovec* vector, size_t count);
  ssize_t Send(iovec* vector, size_t count, bool more);

  // What Send has taken and the kernel has not: Flush gives it more of that, as far as it goes.
  // False, with errno, where something is left.
  bool Flush() { return stream_ == nullptr || stream_->Flush(); }
  bool unsent() const { return stream_ != nullptr && stream_->unsent(); }
  // Whether Receive has more to give than the socket says: epoll does not report that.
  bool buffered() const { return stream_ != nullptr && stream_->buffered(); }

  // Has the kernel acknowledge what it has received at once, rather than with whatever goes back
  // next.
  void AcknowledgeNow();

  // `drop_unsent`: also what the kernel has taken and not sent yet is dropped, as where it would be
  // read from memory that is no longer the peer's to read.
  void Close(bool drop_unsent);

  // The kernel's counters of what went through it.
  struct Counters {
    uint64_t bytes_received = 0;
    uint64_t bytes_acknowledged = 0;
  };
  Counters ReadCounters() const;
  // As the kernel has measured it so far; 0 if it does not tell.
  std::chrono::microseconds round_trip() const;

 private:
  os::UniqueFd fd_;
  std::string cipher_;
  tls::Chain presented_;
  std::unique_ptr<tls::Stream> stream_;  // null: the kernel does all there is to do
};

}  // namespace onecopy::tcp
