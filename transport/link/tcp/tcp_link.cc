#include "transport/link/tcp/tcp_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/tcp/dialing.h"
#include "transport/link/tcp/greeting.h"
#include "transport/os/machine.h"

namespace onecopy::tcp {
namespace {

constexpr int kBacklog = 512;
constexpr size_t kMostGreetings = 1024;  // sockets that have not shown a token yet
constexpr std::chrono::seconds kLanesLimit{10};
constexpr unsigned kUserTimeoutMs = 15'000;  // unacknowledged bytes end a lane after this
constexpr int kKeepIdleSeconds = 10;
// While bytes move, the next message is never far, and falling asleep and waking up cost more than
// it.
constexpr os::Clock::duration kControlSpin = std::chrono::microseconds(50);

// A peer that has gone is noticed by the kernel, in bounded time, also where nobody sends.
void WatchForLoss(int fd) {
  const int on = 1;
  const unsigned limit = kUserTimeoutMs;
  const int idle = kKeepIdleSeconds;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

}  // namespace

TcpLink::TcpLink(LinkOptions options) : options_(std::move(options)) {}

TcpLink::~TcpLink() { Shutdown(); }

Result<std::unique_ptr<Link>> TcpLink::Create(LinkOptions options) {
  std::unique_ptr<TcpLink> link(new TcpLink(std::move(options)));
  Result<os::UniqueFd> listener = os::ListenTcp(link->options_.listen, kBacklog);
  if (!listener.ok()) return listener.status().WithContext("tcp lanes");
  link->listener_ = std::move(*listener);
  ONECOPY_ASSIGN_OR_RETURN(link->bound_, os::LocalAddress(link->listener_.get()));
  const auto start = [&](const char* name, unsigned count, os::Clock::duration spin,
                         auto& threads) {
    for (unsigned i = 0; i < count; ++i) {
      auto thread = std::make_unique<os::LoopThread>(name + std::to_string(i));
      thread->RunSync([&] { thread->loop().SetSpin(spin); });
      threads.push_back(std::move(thread));
    }
  };
  const os::Clock::duration spin = link->options_.spin;
  start("tcp-", link->options_.threads, spin, link->threads_);
  start("tcp-control-", link->options_.control_threads, std::max(spin, kControlSpin),
        link->control_);
  Status watching;
  link->threads_[0]->RunSync([&] {
    watching = link->threads_[0]->loop().Watch(
        link->listener_.get(), EPOLLIN, [self = link.get()](uint32_t) { self->AcceptSockets(); });
  });
  ONECOPY_RETURN_IF_ERROR(watching);
  return std::unique_ptr<Link>(std::move(link));
}

LinkCapability TcpLink::Describe() const {
  LinkCapability tcp;
  tcp.name = name_;
  tcp.version = "1";
  tcp.version_must_match = true;
  NicCapability nic;
  nic.name = os::InterfaceOf(bound_.host);
  nic.address = bound_.host;
  nic.memories = {NicMemory{"host", {}, {}}};
  tcp.nics = {std::move(nic)};
  tcp.attributes = {{"lanes", std::to_string(options_.lanes)},
                    {"listen", bound_.ToString()},
                    {"threads", std::to_string(options_.threads)},
                    {"encrypted", "no"}};
  return tcp;
}

Result<std::vector<NicRegistration>> TcpLink::Register(const RegionRef& region) {
  if (region->cpu_addressable()) return std::vector<NicRegistration>();
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                "sockets cannot use memory of " + region->step_name() + " in place");
}

void TcpLink::Dial(const std::string& peer, Dialled done) {
  done(std::unique_ptr<Dialing>(std::make_unique<TcpDialing>(*this, peer)));
}

void TcpLink::Accept(const std::string& peer, const std::string& offer, Answered done) {
  done(Answer(peer, offer));
}

Result<Link::Accepted> TcpLink::Answer(const std::string& peer, const std::string& offer) {
  ONECOPY_ASSIGN_OR_RETURN(const Offer asked, DecodeOffer(offer));
  const size_t first = NextThread();
  const std::shared_ptr<TcpConnection> connection =
      NewConnection(peer, asked.lanes, LoopOf(first, 0));
  tcp::Answer answer;
  answer.token = {os::RandomNumber(), os::RandomNumber()};
  answer.lanes = asked.lanes;
  answer.port = bound_.port;
  if (bound_.host != "0.0.0.0" && bound_.host != "::") answer.host = bound_.host;
  {
    const std::lock_guard lock(mutex_);
    if (shut_) return Status(Code::kUnavailable, reasons::kDraining, "the tcp link is shut down");
    std::erase_if(awaited_, [](const auto& entry) { return entry.second.connection.expired(); });
    awaited_[answer.token] = {connection, first, asked.lanes + 1};
  }
  connection->ExpectLanesWithin(kLanesLimit);
  return Accepted{connection, Encode(answer)};
}

std::shared_ptr<TcpConnection> TcpLink::NewConnection(const std::string& peer, uint32_t lanes,
                                                      os::EventLoop& home) {
  auto connection = std::make_shared<TcpConnection>(
      ConnectionOptions{options_.node, peer, lanes, options_.chunk_bytes, options_.gets_per_lane,
                        options_.socket_buffer_bytes, options_.zero_copy},
      home);
  Remember(connection);
  return connection;
}

void TcpLink::Remember(const std::shared_ptr<TcpConnection>& connection) {
  const std::lock_guard lock(mutex_);
  std::erase_if(connections_, [](const auto& known) { return known.expired(); });
  connections_.push_back(connection);
}

os::EventLoop& TcpLink::LoopOf(size_t first, uint32_t index) {
  if (index == 0 && !control_.empty()) return control_[first % control_.size()]->loop();
  const size_t step = index == 0 ? 0 : index - 1;
  return threads_[(first + step) % threads_.size()]->loop();
}

void TcpLink::AcceptSockets() {
  while (true) {
    os::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      // Out of descriptors or memory: look again later instead of spinning on the waiting peer.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        os::EventLoop& loop = threads_[0]->loop();
        loop.Rewatch(listener_.get(), 0);
        loop.RunAfter(std::chrono::seconds(1),
                      [this, &loop] { loop.Rewatch(listener_.get(), EPOLLIN); });
      }
      if (errno != ECONNABORTED && errno != EINTR) return;
      continue;
    }
    if (greetings_ >= kMostGreetings) continue;
    ++greetings_;
    WatchForLoss(fd.get());
    Greeting::Await(threads_[0]->loop(), std::move(fd), [this](auto hello, os::UniqueFd greeted) {
      --greetings_;
      AdmitLane(hello, std::move(greeted));
    });
  }
}

void TcpLink::AdmitLane(const Result<FrameHeader>& hello, os::UniqueFd fd) {
  if (!hello.ok() || hello->kind != FrameKind::kHello) return;
  std::shared_ptr<TcpConnection> connection;
  size_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = awaited_.find(Token{hello->key, hello->offset});
    if (found == awaited_.end()) return;
    Awaited& awaited = found->second;
    connection = awaited.connection.lock();
    if (connection == nullptr || hello->tag > connection->lanes().size()) return;
    first = awaited.first_thread;
    if (--awaited.lanes == 0) awaited_.erase(found);
  }
  const auto index = static_cast<uint32_t>(hello->tag);
  connection->AttachLane(index, LoopOf(first, index), std::move(fd), true);
}

void TcpLink::Shutdown() {
  std::vector<std::weak_ptr<TcpConnection>> connections;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(shut_, true)) return;
    connections.swap(connections_);
    awaited_.clear();
  }
  if (threads_.empty()) return;
  threads_[0]->RunSync([this] { threads_[0]->loop().Unwatch(listener_.get()); });
  for (const auto& weak : connections) {
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    connection->Close({Code::kUnavailable, reasons::kDraining, "this node is shutting down"});
  }
  for (const auto& weak : connections) {
    // Waits for the end of each, so that no get is left without its completion.
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    std::promise<void> closed;
    connection->OnClosed([&](const Status&) { closed.set_value(); });
    closed.get_future().wait();
  }
  for (auto* threads : {&threads_, &control_}) {
    for (auto& thread : *threads) thread->StopAndJoin();
  }
}

}  // namespace onecopy::tcp
