// The link over plain sockets: works everywhere, so it is what remains where nothing better does.
//
// All lanes of a node arrive at one port. A lane is let in by a token that went over PeerService;
// one that does not show a good token within five seconds is closed, sooner where many crowd there.
// Where the node has certificates ([tls]) lanes are encrypted by TLS 1.3, and each end proves who
// it is, unless both nodes' owners have said that plain text will do.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/link.h"
#include "transport/core/toolkit/open_connections.h"
#include "transport/link/tcp/connection.h"
#include "transport/link/tcp/encryption.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/lane_dialer.h"
#include "transport/os/sockets/acceptor.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/newcomers.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::tcp {

struct LinkOptions {
  std::string node;
  // One, which may stand for all addresses of this machine, or each address by which it is reached.
  // Of several, some may be missing here now.
  std::vector<os::HostPort> listen;
  uint32_t lanes = 1;            // data lanes of a connection that this node reads from
  unsigned threads = 1;          // for payload
  unsigned control_threads = 0;  // for messages and gets' bookkeeping; 0: those for payload do it
  uint64_t chunk_bytes = 0;
  unsigned gets_per_lane = 2;
  uint64_t socket_buffer_bytes = 0;           // 0: the kernel's choice
  ZeroCopyUse zero_copy = ZeroCopyUse::kOff;  // of lanes that are not encrypted
  os::Clock::duration spin{};
  Encryption encryption;
};

class TcpLink final : public Link {
 public:
  // Listens at once; fails when it cannot.
  static Result<std::unique_ptr<Link>> Create(LinkOptions options);
  ~TcpLink() override;

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override;
  void OnChange(UniqueFunction<void()>) override {}  // what it describes stays as it is
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics) override;
  void Dial(const std::string& peer, Dialled done) override;
  void Accept(const std::string& peer, const std::string& offer, Answered done) override;
  void Shutdown() override;

 private:
  friend class TcpDialing;
  explicit TcpLink(LinkOptions options);

  Result<Accepted> AnswerOffer(const std::string& peer, const std::string& offer);
  // Takes out the oldest one of a peer that has asked for many and made none.
  std::shared_ptr<TcpConnection> MakeRoomFor(const std::string& peer) ONECOPY_REQUIRES(mutex_);
  void Connected(os::UniqueFd fd);
  Status CheckSender(const TcpConnection& connection, const LaneSocket& socket) const;
  void AdmitLane(const Result<FrameHeader>& hello, LaneSocket socket);
  // As the owner's answer says.
  Result<std::shared_ptr<TcpConnection>> NewConnection(const std::string& peer,
                                                       const tcp::Answer& answer,
                                                       os::EventLoop& home);
  // Lane `index` of a connection that drew the number `first`; lane 0, of messages, is on its home.
  os::EventLoop& LoopOf(size_t first, uint32_t index);
  size_t NextThread() { return next_thread_.fetch_add(1); }

  struct Awaited {
    std::string peer;
    uint64_t number = 0;  // grows with each
    std::weak_ptr<TcpConnection> connection;
    size_t first_thread = 0;
    uint32_t lanes = 0;  // that have not come
    bool made = false;   // one has come, and with several addresses any may come again
  };

  const std::string name_ = "tcp";
  const LinkOptions options_;
  std::vector<os::HostPort> bound_;  // as options_.listen, with the ports that the kernel chose
  std::vector<std::unique_ptr<os::LoopThread>> threads_;
  std::vector<std::unique_ptr<os::LoopThread>> control_;
  std::atomic<size_t> next_thread_{0};
  // Thread 0.
  std::vector<std::unique_ptr<os::Acceptor>> acceptors_;
  os::Newcomers newcomers_;  // sockets that have not shown a token yet

  OpenConnections<TcpConnection> connections_{"tcp"};
  Mutex mutex_;
  std::map<Token, Awaited> awaited_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t next_awaited_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

// The reader's half of setting up a connection.
class TcpDialing final : public Dialing {
 public:
  TcpDialing(TcpLink& link, std::string peer);

  const std::string& offer() const override { return offer_; }
  void Establish(const std::string& host, const std::string& answer,
                 LaneDialer::Done done) override;

 private:
  Result<std::shared_ptr<LaneDialer>> Prepare(const std::string& host, const std::string& answer,
                                              size_t first, os::EventLoop& home);

  TcpLink& link_;
  const std::string peer_;
  const std::string offer_;
};

}  // namespace onecopy::tcp
