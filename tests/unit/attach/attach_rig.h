// An attach server with real sessions, and a client of it that says what a test wants said.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/engine/registry/sessions.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "transport/core/base/mutex.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::attach {

inline constexpr int kPatienceMs = 20000;  // so that a test that fails ends

// Asks until the answer is yes, with patience.
inline void WaitUntil(const std::function<bool()>& question) {
  for (int i = 0; i < kPatienceMs && !question(); ++i) ::poll(nullptr, 0, 1);
  CHECK(question());
}

// A client's end of a connection. Blocks, with patience.
class Client {
 public:
  explicit Client(const std::string& path) {
    auto fd = os::ConnectUnix(path, SOCK_SEQPACKET);
    REQUIRE_OK(fd);
    socket_ = std::move(*fd);
  }

  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }

  void Send(const v1::AttachRequest& request) {
    REQUIRE_OK(os::SendPacket(fd(), request.SerializeAsString()));
  }
  void SendHello(uint32_t least = kClientProtocolMin, uint32_t most = kClientProtocolMax) {
    Send(Hello(least, most));
  }
  void SendFds(const v1::AttachRequest& request, const std::vector<int>& fds);

  static v1::AttachRequest Hello(uint32_t least = kClientProtocolMin,
                                 uint32_t most = kClientProtocolMax) {
    v1::AttachRequest request;
    request.mutable_hello()->set_protocol_min(least);
    request.mutable_hello()->set_protocol_max(most);
    request.mutable_hello()->set_client("test 1.0");
    return request;
  }
  static v1::AttachRequest PassDescriptor() {
    v1::AttachRequest request;
    request.mutable_pass_descriptor();
    return request;
  }

  v1::AttachReply Receive() {
    os::Packet packet = Next();
    REQUIRE_FALSE(packet.end);
    v1::AttachReply reply;
    REQUIRE(reply.ParseFromString(packet.bytes));
    return reply;
  }
  void ExpectEnd() { CHECK(Next().end); }
  std::string Attach() {
    SendHello();
    const v1::AttachReply reply = Receive();
    INFO(reply.DebugString());
    REQUIRE(reply.has_welcome());
    return reply.welcome().token();
  }

 private:
  os::Packet Next() {
    pollfd wait{fd(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, kPatienceMs) == 1);
    auto packet = os::ReceivePacket(fd(), kMaxAttachBytes);
    REQUIRE_OK(packet);
    REQUIRE(packet->has_value());
    return std::move(**packet);
  }

  os::UniqueFd socket_;
};

class Rig {
 public:
  explicit Rig(const std::function<void(Options&)>& adjust = [](Options&) {}) {
    sessions_.OnClosed([this](const engine::SessionId& id) {
      const MutexLock lock(mutex_);
      closed_.push_back(id);
      changed_.NotifyAll();
    });
    Options options;
    options.path = path();
    options.node = "east";
    options.version = "1.2.3";
    options.report = [](const Status&) {};
    adjust(options);
    auto server = AttachServer::Start(options, engine_.loop(), sessions_);
    REQUIRE_OK(server);
    server_ = std::move(*server);
  }
  ~Rig() { server_->Stop(); }

  std::string path() const { return folder_ / "attach.sock"; }
  AttachServer& server() { return *server_; }
  os::LoopThread& engine() { return engine_; }

  Result<engine::Principal> Find(const std::string& token) {
    Result<engine::Principal> who = engine::Principal();
    engine_.RunSync([&] { who = sessions_.Find(token); });
    return who;
  }
  engine::ClientIdentity IdentityOf(const std::string& token) {
    const auto who = Find(token);
    REQUIRE_OK(who);
    engine::ClientIdentity identity;
    engine_.RunSync([&] { identity = *sessions_.Identity(who->session); });
    return identity;
  }
  Result<os::PassedFd> Take(const std::string& token, uint64_t fd_handle) {
    const auto who = Find(token);
    REQUIRE_OK(who);
    Result<os::PassedFd> fd = os::PassedFd();
    engine_.RunSync([&] { fd = sessions_.Take(who->session, fd_handle); });
    return fd;
  }
  void WaitForClosed(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
    const MutexLock lock(mutex_);
    while (closed_.size() < count) REQUIRE(changed_.WaitUntil(mutex_, deadline));
    CHECK(closed_.size() == count);
  }

 private:
  testing::TempFolder folder_;
  Mutex mutex_;
  Condition changed_;
  std::vector<engine::SessionId> closed_ ONECOPY_GUARDED_BY(mutex_);
  engine::Sessions sessions_{"east", 998};
  os::LoopThread engine_{"engine"};
  std::unique_ptr<AttachServer> server_;
};

inline void Client::SendFds(const v1::AttachRequest& request, const std::vector<int>& fds) {
  std::string bytes = request.SerializeAsString();
  iovec data{bytes.data(), bytes.size()};
  std::vector<std::byte> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::copy(fds.begin(), fds.end(), reinterpret_cast<int*>(CMSG_DATA(part)));
  REQUIRE(::sendmsg(fd(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace onecopy::attach
