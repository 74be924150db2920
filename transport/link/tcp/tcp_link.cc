#include "transport/link/tcp/tcp_link.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/tcp/greeting.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/socket_owner.h"

namespace onecopy::tcp {
namespace {

constexpr int kBacklog = 512;
// Sockets that have not shown a token yet, altogether and from one address. A peer's are here for
// moments: its greeting comes with the connection.
constexpr size_t kMaxNewcomers = 1024;
constexpr size_t kMaxNewcomersEach = 512;
// Connections that a peer has asked for and not made yet.
constexpr size_t kMaxAwaitedOfPeer = 32;
constexpr std::chrono::seconds kLanesLimit{10};
// While bytes move, the next message is never far, and falling asleep and waking up cost more than
// it.
constexpr os::Clock::duration kControlSpin = std::chrono::microseconds(50);

// By address; on this machine by user as well, since all have the same.
Result<std::string> WhoConnects(int fd) {
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort from, os::PeerAddress(fd));
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort to, os::LocalAddress(fd));
  if (from.host != to.host && !os::IsLoopback(from.host)) return os::Counted(from.host);
  const Result<std::optional<os::FarSocket>> far = os::FindFarSocket(fd);
  if (!far.ok() && far.status().code() == Code::kUnavailable) return far.status();
  return far.ok() && *far ? from.host + " uid " + std::to_string((*far)->uid) : from.host;
}

// Of several addresses, one whose device is missing now must not keep the daemon from starting.
Result<os::UniqueFd> Listen(const os::HostPort& where, bool one_of_several) {
  return one_of_several ? os::ListenTcpAnywhere(where, kBacklog) : os::ListenTcp(where, kBacklog);
}

NicCapability DescribeAddress(const std::string& host) {
  NicCapability nic;
  nic.name = os::InterfaceOf(host);
  nic.address = host;
  nic.memories = {NicMemory{"host", {}, {}}};
  if (nic.name.empty() && host != "0.0.0.0" && host != "::") {
    nic.viability = Viability::No(reasons::kLinkDown,
                                  "this machine does not have the address " + host + " of lanes",
                                  "correct lanes, or bring the device up: see ip address");
  }
  return nic;
}

}  // namespace

TcpLink::TcpLink(LinkOptions options) : options_(std::move(options)) {}

TcpLink::~TcpLink() { Shutdown(); }

Result<std::unique_ptr<Link>> TcpLink::Create(LinkOptions options) {
  std::unique_ptr<TcpLink> link(new TcpLink(std::move(options)));
  std::vector<os::UniqueFd> listeners;
  for (const os::HostPort& where : link->options_.listen) {
    Result<os::UniqueFd> listener = Listen(where, link->options_.listen.size() > 1);
    if (!listener.ok()) return listener.status().WithContext("tcp lanes (--lanes)");
    ONECOPY_ASSIGN_OR_RETURN(os::HostPort bound, os::LocalAddress(listener->get()));
    link->bound_.push_back(std::move(bound));
    listeners.push_back(std::move(*listener));
  }
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
    // A shortage of descriptors shows at the daemon's other ports, which report it.
    for (os::UniqueFd& listener : listeners) {
      link->acceptors_.push_back(std::make_unique<os::Acceptor>(
          link->threads_[0]->loop(), std::move(listener),
          [self = link.get()](os::UniqueFd fd) { self->Connected(std::move(fd)); },
          [](const Status&) {}));
      if (watching.ok()) watching = link->acceptors_.back()->Start();
    }
  });
  ONECOPY_RETURN_IF_ERROR(watching);
  return std::unique_ptr<Link>(std::move(link));
}

LinkCapability TcpLink::Describe() const {
  LinkCapability tcp;
  tcp.name = name_;
  tcp.version = "4";  // of what travels on lanes
  tcp.version_must_match = true;
  for (const os::HostPort& bound : bound_) tcp.nics.push_back(DescribeAddress(bound.host));
  tcp.attributes = {{"lanes", std::to_string(options_.lanes)},
                    {"listen", os::ToString(bound_)},
                    {"threads", std::to_string(options_.threads)},
                    {"encrypted", options_.encryption.required ? "yes" : "no"}};
  if (options_.encryption.possible()) {
    tcp.attributes["encrypts"] = options_.encryption.by_kernel ? "by kernel" : "by daemon";
  }
  return tcp;
}

Result<std::vector<NicRegistration>> TcpLink::Register(const RegionRef& region,
                                                       const std::vector<std::string>&) {
  if (region->cpu_addressable()) return std::vector<NicRegistration>();
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                "sockets cannot use memory of " + region->step_name() + " in place");
}

void TcpLink::Dial(const std::string& peer, Dialled done) {
  done(std::unique_ptr<Dialing>(std::make_unique<TcpDialing>(*this, peer)));
}

void TcpLink::Accept(const std::string& peer, const std::string& offer, Answered done) {
  done(AnswerOffer(peer, offer));
}

Result<Link::Accepted> TcpLink::AnswerOffer(const std::string& peer, const std::string& offer) {
  ONECOPY_ASSIGN_OR_RETURN(const Offer asked, DecodeOffer(offer));
  ONECOPY_ASSIGN_OR_RETURN(
      const bool encrypted,
      AgreeOnEncryption(options_.encryption, peer, asked.can_encrypt, asked.must_encrypt));
  const size_t first = NextThread();
  Answer answer;
  answer.token = {os::RandomNumber(), os::RandomNumber()};
  answer.lanes = std::max(asked.lanes, static_cast<uint32_t>(bound_.size()));
  answer.addresses = bound_;
  std::string& host = answer.addresses.front().host;
  if (host == "0.0.0.0" || host == "::") host.clear();
  answer.encrypted = encrypted;
  answer.by_kernel = encrypted && options_.encryption.by_kernel;
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<TcpConnection> connection,
                           NewConnection(peer, answer, LoopOf(first, 0)));
  std::shared_ptr<TcpConnection> replaced;
  {
    const MutexLock lock(mutex_);
    std::erase_if(awaited_, [](const auto& entry) { return entry.second.connection.expired(); });
    replaced = MakeRoomFor(peer);
    awaited_[answer.token] = {peer, next_awaited_++, connection, first, answer.lanes + 1, false};
  }
  if (replaced != nullptr) {
    replaced->Close({Code::kUnavailable, reasons::kLinkDown,
                     "node " + peer + " asked for newer tcp connections and never made this one"});
  }
  connection->ExpectLanesWithin(kLanesLimit);
  return Accepted{connection, Encode(answer)};
}

std::shared_ptr<TcpConnection> TcpLink::MakeRoomFor(const std::string& peer) {
  size_t of_peer = 0;
  auto oldest = awaited_.end();
  for (auto one = awaited_.begin(); one != awaited_.end(); ++one) {
    if (one->second.peer != peer || one->second.made) continue;
    ++of_peer;
    if (oldest == awaited_.end() || one->second.number < oldest->second.number) oldest = one;
  }
  if (of_peer < kMaxAwaitedOfPeer) return nullptr;
  std::shared_ptr<TcpConnection> replaced = oldest->second.connection.lock();
  awaited_.erase(oldest);
  return replaced;
}

Result<std::shared_ptr<TcpConnection>> TcpLink::NewConnection(const std::string& peer,
                                                              const Answer& answer,
                                                              os::EventLoop& home) {
  ConnectionOptions options{options_.node,          peer,
                            answer.lanes,           options_.chunk_bytes,
                            options_.gets_per_lane, options_.socket_buffer_bytes,
                            options_.zero_copy};
  options.several_addresses = answer.addresses.size() > 1;
  options.encrypted = answer.encrypted;
  options.own_by_kernel = options_.encryption.by_kernel;
  options.owner_by_kernel = answer.by_kernel;
  if (answer.encrypted) options.zero_copy = ZeroCopyUse::kOff;
  auto connection = std::make_shared<TcpConnection>(std::move(options), home);
  ONECOPY_RETURN_IF_ERROR(connections_.Add(connection));
  return connection;
}

os::EventLoop& TcpLink::LoopOf(size_t first, uint32_t index) {
  if (index == 0 && !control_.empty()) return control_[first % control_.size()]->loop();
  const size_t step = index == 0 ? 0 : index - 1;
  return threads_[(first + step) % threads_.size()]->loop();
}

void TcpLink::Connected(os::UniqueFd fd) {
  const Result<std::string> who = WhoConnects(fd.get());
  if (!who.ok()) return;  // it is ending already
  if (newcomers_.of(*who) >= kMaxNewcomersEach) {
    newcomers_.PutOut(*who);
  } else if (newcomers_.size() >= kMaxNewcomers) {
    newcomers_.PutOut();
  }
  auto id = std::make_shared<os::Newcomers::Id>(0);
  const auto greeting =
      Greeting::Await(threads_[0]->loop(), LaneSocket(std::move(fd)), options_.encryption,
                      [this, id](auto hello, LaneSocket greeted) {
                        newcomers_.Leave(*id);
                        AdmitLane(hello, std::move(greeted));
                      });
  *id = newcomers_.Enter(*who, [greeting] {
    if (const auto waiting = greeting.lock()) {
      waiting->GiveUp({Code::kResourceExhausted, reasons::kQuota,
                       "too many connections wait for their greeting"});
    }
  });
}

void TcpLink::AdmitLane(const Result<FrameHeader>& hello, LaneSocket socket) {
  if (!hello.ok() || hello->kind != FrameKind::kHello) return;
  std::shared_ptr<TcpConnection> connection;
  size_t first = 0;
  {
    const MutexLock lock(mutex_);
    const auto found = awaited_.find(Token{hello->key, hello->offset});
    if (found == awaited_.end()) return;
    Awaited& awaited = found->second;
    connection = awaited.connection.lock();
    if (connection == nullptr || hello->tag > connection->lanes().size()) return;
    first = awaited.first_thread;
    awaited.made = bound_.size() > 1;
    if (awaited.lanes > 0) --awaited.lanes;
    if (awaited.lanes == 0 && !awaited.made) awaited_.erase(found);
  }
  if (const Status checked = CheckSender(*connection, socket); !checked.ok()) {
    return connection->Close(checked);
  }
  const auto index = static_cast<uint32_t>(hello->tag);
  connection->AttachLane(index, LoopOf(first, index), std::move(socket), true);
}

// A token alone is not enough where lanes are encrypted: it must come from whom it was given to.
Status TcpLink::CheckSender(const TcpConnection& connection, const LaneSocket& socket) const {
  if (connection.encrypted() != socket.encrypted()) {
    return {Code::kUnauthenticated, reasons::kInsecure,
            "a tcp lane came " + std::string(socket.encrypted() ? "encrypted" : "as plain text") +
                ", which was not agreed on"};
  }
  if (!socket.encrypted()) return OkStatus();
  return options_.encryption.trust->Now().identity->Verify(socket.presented(), connection.peer(),
                                                           tls::Side::kClient);
}

TcpDialing::TcpDialing(TcpLink& link, std::string peer)
    : link_(link),
      peer_(std::move(peer)),
      offer_(Encode(Offer{link.options_.lanes, link.options_.encryption.possible(),
                          link.options_.encryption.required})) {}

void TcpDialing::Establish(const std::string& host, const std::string& answer,
                           LaneDialer::Done done) {
  const size_t first = link_.NextThread();
  os::EventLoop& home = link_.LoopOf(first, 0);
  Result<std::shared_ptr<LaneDialer>> dialer = Prepare(host, answer, first, home);
  home.Post([dialer = std::move(dialer), done = std::move(done)]() mutable {
    if (!dialer.ok()) return done(dialer.status());
    (*dialer)->Start(std::move(done));
  });
}

Result<std::shared_ptr<LaneDialer>> TcpDialing::Prepare(const std::string& host,
                                                        const std::string& text, size_t first,
                                                        os::EventLoop& home) {
  ONECOPY_ASSIGN_OR_RETURN(Answer answer, DecodeAnswer(text));
  if (answer.lanes >
      std::max(link_.options_.lanes, static_cast<uint32_t>(answer.addresses.size()))) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the peer answered with more tcp lanes than were offered");
  }
  // The owner has an answer only where it can; what it must is not known here, and need not be.
  const Encryption& encryption = link_.options_.encryption;
  ONECOPY_ASSIGN_OR_RETURN(
      const bool encrypted,
      AgreeOnEncryption(encryption, peer_, answer.encrypted, answer.encrypted));
  LaneDialer::Plan plan;
  if (encrypted) plan.secure = {encryption, peer_};
  ONECOPY_ASSIGN_OR_RETURN(auto connection, link_.NewConnection(peer_, answer, home));
  if (answer.addresses.front().host.empty()) answer.addresses.front().host = host;
  plan.addresses = std::move(answer.addresses);
  plan.answered = host;
  plan.token = answer.token;
  plan.loop_of = [&link = link_, first](uint32_t lane) -> os::EventLoop& {
    return link.LoopOf(first, lane);
  };
  return std::make_shared<LaneDialer>(std::move(connection), home, std::move(plan));
}

void TcpLink::Shutdown() {
  if (!threads_.empty()) threads_[0]->RunSync([this] { acceptors_.clear(); });
  if (!connections_.Shutdown()) return;
  for (auto* threads : {&threads_, &control_}) {
    for (auto& thread : *threads) thread->StopAndJoin();
  }
}

}  // namespace onecopy::tcp
