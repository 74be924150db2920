// Keeps descriptors of a daemon's memory while another daemon takes its place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "daemon/holder/protocol.h"
#include "onecopy/result.h"
#include "transport/os/sockets/acceptor.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::holder {

// Use it on the loop's thread, or before the loop runs. It serves one daemon at a time. It closes
// connections of other users without reading from them.
class Holder {
 public:
  // Listens at this path, for its own user only. If no daemon connects for as long as the last one
  // asked for, it closes all descriptors and calls `over`. That frees their memory, unless another
  // process uses it.
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
  std::map<int, os::UniqueFd> connections_;  // by descriptor
  int daemon_ = -1;                          // the connection that has said hello
  std::map<uint64_t, os::UniqueFd> held_;
  std::chrono::milliseconds patience_{60'000};  // until a daemon sets another time
  os::EventLoop::TimerId timer_ = 0;            // runs while no daemon is connected
};

}  // namespace onecopy::holder
