// The link over plain sockets: works everywhere, so it is what remains where nothing better does.
//
// All lanes of a node arrive at one port. A lane is let in by a token that went over PeerService;
// one that does not show a good token within five seconds is closed. The payload itself is not
// encrypted.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/link.h"
#include "transport/link/tcp/connection.h"
#include "transport/os/event_loop.h"
#include "transport/os/host_port.h"

namespace onecopy::tcp {

struct LinkOptions {
  std::string node;
  os::HostPort listen;
  uint32_t lanes = 1;            // data lanes of a connection that this node reads from
  unsigned threads = 1;          // for payload
  unsigned control_threads = 0;  // for messages and gets' bookkeeping; 0: those for payload do it
  uint64_t chunk_bytes = 0;
  unsigned gets_per_lane = 2;
  uint64_t socket_buffer_bytes = 0;  // 0: the kernel's choice
  ZeroCopyUse zero_copy = ZeroCopyUse::kOff;
  os::Clock::duration spin{};
};

class TcpLink final : public Link {
 public:
  // Listens at once; fails when it cannot.
  static Result<std::unique_ptr<Link>> Create(LinkOptions options);
  ~TcpLink() override;

  const std::string& name() const override { return name_; }
  LinkCapability Describe() const override;
  void OnChange(UniqueFunction<void()>) override {}  // what it describes stays as it is
  Result<std::vector<NicRegistration>> Register(const RegionRef& region) override;
  void Dial(const std::string& peer, Dialled done) override;
  void Accept(const std::string& peer, const std::string& offer, Answered done) override;
  void Shutdown() override;

 private:
  friend class TcpDialing;
  explicit TcpLink(LinkOptions options);

  Result<Accepted> Answer(const std::string& peer, const std::string& offer);
  void AcceptSockets();
  void AdmitLane(const Result<FrameHeader>& hello, os::UniqueFd fd);
  std::shared_ptr<TcpConnection> NewConnection(const std::string& peer, uint32_t lanes,
                                               os::EventLoop& home);
  // Lane `index` of a connection that drew the number `first`; lane 0, of messages, is on its home.
  os::EventLoop& LoopOf(size_t first, uint32_t index);
  size_t NextThread() { return next_thread_.fetch_add(1); }
  void Remember(const std::shared_ptr<TcpConnection>& connection);

  struct Awaited {
    std::weak_ptr<TcpConnection> connection;
    size_t first_thread = 0;
    uint32_t lanes = 0;
  };

  const std::string name_ = "tcp";
  const LinkOptions options_;
  os::HostPort bound_;
  os::UniqueFd listener_;
  std::vector<std::unique_ptr<os::LoopThread>> threads_;
  std::vector<std::unique_ptr<os::LoopThread>> control_;
  std::atomic<size_t> next_thread_{0};
  size_t greetings_ = 0;  // thread 0

  std::mutex mutex_;
  std::map<Token, Awaited> awaited_;                       // guarded by mutex_
  std::vector<std::weak_ptr<TcpConnection>> connections_;  // guarded by mutex_
  bool shut_ = false;                                      // guarded by mutex_
};

}  // namespace onecopy::tcp
