// The first exchange on a new socket, before it is anybody's lane: one header each way, within a
// bounded time.
#pragma once

#include <memory>
#include <string>

#include "transport/core/result.h"
#include "transport/link/tcp/frame.h"
#include "transport/os/event_loop.h"
#include "transport/os/host_port.h"
#include "transport/os/unique_fd.h"

namespace onecopy::tcp {

// On the loop's thread. `done` runs once, never inside the call that begins the exchange.
class Greeting : public std::enable_shared_from_this<Greeting> {
 public:
  using Done = UniqueFunction<void(Result<FrameHeader>, os::UniqueFd)>;

  // Owner: waits for the peer's first header on a socket that was accepted. The caller answers it.
  static void Await(os::EventLoop& loop, os::UniqueFd fd, Done done);
  // Reader: connects, sends `hello`, and waits for the answer.
  static void Offer(os::EventLoop& loop, const os::HostPort& where, const FrameHeader& hello,
                    Done done);

 private:
  Greeting(os::EventLoop& loop, os::UniqueFd fd, Done done);
  void Start(uint32_t events);
  void OnEvents();
  void Finish(Result<FrameHeader> outcome);

  os::EventLoop& loop_;
  os::UniqueFd fd_;
  Done done_;
  std::optional<FrameHeader> hello_;  // to be sent once connected
  HeaderBytes header_{};
  size_t have_ = 0;
  os::EventLoop::TimerId timer_ = 0;
};

}  // namespace onecopy::tcp
