// The bytes of an encrypted lane, between a socket and the code that sends and receives.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/tls/handshake.h"
#include "transport/tls/records.h"

namespace onecopy::tls {

// One thread at a time; nothing waits. The socket is the caller's, and outlives this.
class Stream {
 public:
  struct Options {
    // Pieces of at most so many bytes share records with their neighbours; a longer one has records
    // of its own, which the other end can open straight to where its bytes belong.
    size_t shared_bytes = 0;
    uint64_t records_per_key = kRecordsPerKey;
  };
  static Result<std::unique_ptr<Stream>> Make(int fd, const SessionKeys& keys,
                                              const Options& options);

  // As sendmsg. What it takes it has sealed, and its memory is not needed any more; what the socket
  // does not take of that goes with the next call, or with Flush.
  ssize_t Send(const iovec* pieces, size_t count, bool more);
  // As recvmsg: 0 if the other end has closed the stream, EPROTO for records that are not its own.
  ssize_t Receive(const iovec* pieces, size_t count);

  // False, with errno, where something is left to be sent.
  bool Flush();
  bool unsent() const { return sent_ < sealed_; }
  // Whether Receive has more to give or to do before the socket has: epoll does not report that.
  bool buffered() const;

 private:
  Stream(int fd, Sealer sealer, Opener opener, const Options& options);
  void MakeRoom(const iovec* pieces, size_t count);
  bool SealBatch(const iovec* pieces, size_t count, size_t* taken);
  size_t NextRecord() const;  // its length, where all of it is there; else 0
  ssize_t Fail(int error);

  const int fd_;
  const Options options_;
  Sealer sealer_;
  Opener opener_;
  bool more_ = false;    // of what is sealed
  bool broken_ = false;  // nothing that comes afterwards can be opened

  std::vector<std::byte> out_;  // records; of these
  size_t sealed_ = 0;           // so many bytes are there
  size_t sent_ = 0;             // and so many of them were taken
  std::vector<std::byte> in_;   // what was received
  size_t in_from_ = 0;
  size_t in_to_ = 0;
  std::vector<std::byte> spilled_;  // content of a record for which there was no room
  size_t spilled_from_ = 0;
};

}  // namespace onecopy::tls
