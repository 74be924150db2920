// One client on attach.sock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "daemon/attach/attach_server.h"
#include "daemon/attach/engine_session.h"
#include "onecopy/v1/attach.pb.h"
#include "transport/os/event_loop.h"
#include "transport/os/packet.h"
#include "transport/os/unique_fd.h"

namespace onecopy::attach {

// Thread `attach` only. One request is answered before the next is read.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Client {
    os::UniqueFd socket;
    os::UniqueFd pidfd;  // empty for a client that cannot be seen from here
    engine::ClientIdentity identity;
  };

  // `options` and `loop` must outlive the connection; `ended` runs once, when it has ended by
  // itself.
  Connection(const Options& options, os::EventLoop& loop, Client client,
             std::unique_ptr<EngineSession> session, std::function<void()> ended);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status Start();
  // Says why and ends.
  void Refuse(const Status& why);
  // Ends the session. Safe to repeat; does not call `ended`.
  void Close();

  uint32_t uid() const { return client_.identity.uid; }

 private:
  enum class State {
    kNew,       // nothing was said
    kAttached,  // waits for the next request
    kAsking,    // waits for the engine's answer to the last one
    kClosed
  };

  void OnSocket(uint32_t epoll_events);
  void OnPacket(os::Packet packet);
  void OnHello(const v1::AttachRequest::Hello& hello, const os::Packet& packet);
  void OnPassDescriptor(os::Packet packet);
  void OnOpenRing(const os::Packet& packet);
  void OnOpenRoute(const v1::AttachRequest::OpenRoute& request, const os::Packet& packet);
  // Refuses what may not be asked for yet, or carries what it should not; true where it did.
  bool RefusesRing(const os::Packet& packet);
  // Reads nothing more until Answer.
  void BeginAsking();
  void Answer(const v1::AttachReply& reply, std::span<const int> fds = {});
  void Reply(const v1::AttachReply& reply, std::span<const int> fds = {});
  void End();

  const Options& options_;
  os::EventLoop& loop_;
  Client client_;
  std::unique_ptr<EngineSession> session_;
  std::function<void()> ended_;
  State state_ = State::kNew;
  os::EventLoop::TimerId hello_timer_ = 0;
};

}  // namespace onecopy::attach
