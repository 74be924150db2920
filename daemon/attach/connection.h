// One client on attach.sock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/attach/engine_session.h"
#include "daemon/engine/registry/identify.h"
#include "onecopy/v1/attach.pb.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::attach {

// Thread `attach` only. One request is answered before the next is read.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Client {
    os::UniqueFd socket;
    engine::Identified known;
  };

  // `options` must outlive the connection; `ended` runs once, when it has ended by itself.
  Connection(const Options& options, std::shared_ptr<os::LoopThread> thread,
             std::shared_ptr<os::Closer> closer, Client client,
             std::unique_ptr<EngineSession> session, std::function<void()> ended);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // `greeted` runs once, when Hello has been said.
  void WhenGreeted(std::function<void()> greeted) { greeted_ = std::move(greeted); }
  Status Start();
  // Says why and ends.
  void Refuse(const Status& why);
  // Ends the session. Safe to repeat; does not call `ended`.
  void Close();

  // Who pays for it, from its beginning to its end.
  const Uid& payer() const { return payer_; }

 private:
  enum class State {
    kNew,       // nothing was said
    kAttached,  // waits for the next request
    kAsking,    // waits for the engine's answer to the last one
    kClosed
  };

  void OnSocket(uint32_t epoll_events);
  // What came with a packet: nothing but what closes them may touch descriptors before it is known
  // what they are.
  struct Passed {
    std::vector<os::PassedFd> fds;
    bool cut = false;  // there were more

    bool any() const { return cut || !fds.empty(); }
  };
  void OnPacket(os::Packet packet);
  void OnHello(const v1::AttachRequest::Hello& hello, const Passed& passed);
  void OnShowNamespaces(Passed passed);
  // Opens the session, and answers with Welcome.
  void Welcome();
  void OnPassDescriptor(bool file, Passed passed);
  void OnOpenRing(const Passed& passed);
  void OnOpenRoute(const v1::AttachRequest::OpenRoute& request, const Passed& passed);
  void OnOpenSlab(const Passed& passed);
  void OnMapBuffer(const v1::AttachRequest::MapBuffer& request, const Passed& passed);
  // Refuses what may not be asked for yet, or carries what it should not; true where it did.
  // `what`: rings, slabs, mappings,
  // which this daemon `has`.
  bool Refuses(const Passed& passed, const std::string& what, bool has);
  bool RefusesRing(const Passed& passed) { return Refuses(passed, "rings", session_->has_rings()); }
  // Answers once they are closed: so a client that passes what cannot be closed waits by itself.
  void RefuseDescriptors(Passed passed, Status why);
  // Reads nothing more until Answer.
  void BeginAsking();
  void Answer(const v1::AttachReply& reply, std::span<const int> fds = {});
  void Reply(const v1::AttachReply& reply, std::span<const int> fds = {});
  void End();

  const Options& options_;
  const std::shared_ptr<os::LoopThread> thread_;
  os::EventLoop& loop_;
  const std::shared_ptr<os::Closer> closer_;
  Client client_;
  const Uid payer_;
  uint32_t protocol_ = 0;
  bool may_show_ = false;  // nothing has been asked for since Hello
  std::unique_ptr<EngineSession> session_;
  std::function<void()> ended_;
  std::function<void()> greeted_;
  State state_ = State::kNew;
  os::EventLoop::TimerId hello_timer_ = 0;
};

// Tells a client that is not taken why, as far as its socket takes that; the socket is closed next.
// Closes descriptors that it has sent, which may block.
void TurnAway(const os::UniqueFd& socket, const Status& why);

}  // namespace onecopy::attach
