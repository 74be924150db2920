// Holds descriptors of memory for a daemon, while that is replaced by another one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "daemon/holder/protocol.h"
#include "onecopy/result.h"
#include "transport/os/acceptor.h"
#include "transport/os/event_loop.h"
#include "transport/os/packet.h"

namespace onecopy::holder {

// The loop's thread only, or before it runs. It serves one daemon at a time, of its own user; what
// another user's process asks is not even read.
class Holder {
 public:
  // A holder at this path, for its own user alone. `over` runs once nothing has been asked for as
  // long as the last daemon wanted: all that was held has been closed then, and its memory is free
  // where no other process has it.
  static Result<std::unique_ptr<Holder>> Serve(os::EventLoop& loop, const std::string& path,
                                               std::function<void()> over);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  size_t held() const { return held_.size(); }

 private:
  Holder(os::EventLoop& loop, std::function<void()> over) : loop_(loop), over_(std::move(over)) {}

  void Meet(os::UniqueFd connection);
  void Read(int connection);
  void Part(int connection);
  void Answer(int connection, const Message& asked, os::Packet& packet);
  Message Hold(const Message& asked, os::Packet& packet);
  void SendNext(int connection, uint64_t after);
  void GiveUp();

  os::EventLoop& loop_;
  const std::function<void()> over_;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::map<int, os::UniqueFd> connections_;  // by number; one of them may be the daemon's
  int daemon_ = -1;                          // that has said hello
  std::map<uint64_t, os::UniqueFd> held_;
  std::chrono::milliseconds patience_{60'000};  // until a daemon says otherwise
  os::EventLoop::TimerId timer_ = 0;            // while there is no daemon
};

}  // namespace onecopy::holder
