// The first exchange on a new socket, before it is a lane: a TLS handshake if it will be encrypted,
// then one header each way, within a bounded time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/link/tcp/encryption.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/lane_socket.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::tcp {

// On the loop's thread. `done` runs once, never inside the call that begins the exchange.
class Greeting : public std::enable_shared_from_this<Greeting> {
 public:
  using Done = UniqueFunction<void(Result<FrameHeader>, LaneSocket)>;

  // Owner: waits for the peer's first header on a socket that was accepted. The caller answers it,
  // and judges whether the socket should have been encrypted, and by whom.
  static std::weak_ptr<Greeting> Await(os::EventLoop& loop, LaneSocket socket,
                                       const Encryption& encryption, Done done);

  // Reader: connects, sends `hello`, and waits for the answer. With `secure`, encrypted, and only
  // if the far end proves to be that peer.
  struct Secure {
    Encryption encryption;
    std::string peer;
  };
  static void Offer(os::EventLoop& loop, const os::HostPort& where, const FrameHeader& hello,
                    std::optional<Secure> secure, Done done);

  // Ends it now; `done` runs inside this call, unless it has run.
  void GiveUp(Status why) { Finish(std::move(why)); }

 private:
  // In this order, each where it is needed.
  enum class Stage { kConnecting, kFirstByte, kShaking, kHeader };

  Greeting(os::EventLoop& loop, LaneSocket socket, Stage stage, Done done);
  void Start(uint32_t events);
  void OnEvents();
  void Connected();
  void LookAtFirstByte();
  void BeginHandshake(tls::Side side);
  void Shake();
  Status Shaken();
  void SendHello();
  void ReceiveHeader();
  void Finish(Result<FrameHeader> outcome);

  os::EventLoop& loop_;
  LaneSocket socket_;
  Done done_;
  Stage stage_;
  Encryption encryption_;
  std::string peer_;                  // who the other end must be; empty: the caller judges
  std::optional<FrameHeader> hello_;  // to be sent
  std::shared_ptr<const tls::Identity> identity_;
  std::unique_ptr<tls::Handshake> handshake_;
  HeaderBytes header_{};
  size_t have_ = 0;
  os::EventLoop::TimerId timer_ = 0;
};

}  // namespace onecopy::tcp
