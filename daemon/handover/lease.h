// What a client holds for as long as it maps memory of this daemon's: one end of a pair of sockets.
#pragma once

#include <functional>
#include <utility>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::handover {

// The loop's thread only. Nothing can be sent to this end, neither bytes nor descriptors: the
// kernel refuses it, so that a client can neither flood nor block the thread. What the client does
// is to close its own, by itself or by dying.
class Lease {
 public:
  // `released` runs when every process that has the client's end has closed it; it ends the lease.
  static Result<std::pair<Lease, os::UniqueFd>> Make(os::EventLoop& loop,
                                                     std::function<void()> released);
  // The client reads an end of file: it will not learn what becomes of the memory.
  ~Lease() { Reset(); }
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;

  // The client reads a google.rpc.Status: it must release the memory. Once.
  void Revoke(const Status& why);

 private:
  Lease(os::EventLoop& loop, os::UniqueFd socket) : loop_(&loop), socket_(std::move(socket)) {}
  void Reset();

  os::EventLoop* loop_;
  os::UniqueFd socket_;
};

}  // namespace onecopy::handover
