#include "daemon/engine/peering/peers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/base/duration.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr int kMaxMisses = 3;  // heartbeats without an answer, before a peer counts as lost
constexpr std::chrono::seconds kConnectGrace{3};
// An attempt that has not been answered for so long may have been lost on the way.
constexpr std::chrono::seconds kStaleAttempt{1};
// Asking all backends what they can do costs more than a heartbeat does.
constexpr std::chrono::seconds kDescribeEvery{10};
constexpr std::chrono::seconds kLogRefusalsEvery{10};  // those between two are counted
constexpr std::chrono::milliseconds kVanishedHeartbeat{500};

}  // namespace

Peers::Peers(Context& context, Catalog& catalog, PeerDialer& dialer)
    : context_(context),
      catalog_(catalog),
      dialer_(dialer),
      admission_(context.options),
      presence_(context.loop, context.options.heartbeat),
      addresses_(context, admission_, peers_, *this) {}

Peers::~Peers() = default;

void Peers::Start(const std::string& address) {
  address_ = address;
  for (const PeerOptions& options : context_.options.peers) {
    if (!options.address.empty()) addresses_.Locate(options, false);
  }
}

void Peers::Configure(const std::vector<PeerOptions>& peers) {
  if (stopped_) return;
  admission_.Configure(peers);
  addresses_.Configure(peers);
}

void Peers::Distrust(Peer& peer, const Status& why) {
  SetState(peer, NodeState::kDisconnected, why);
  if (listener_.distrusted) listener_.distrusted(peer.name, why);
}

void Peers::Silence(Peer& peer) {
  Redial(peer);
  context_.loop.CancelTimer(std::exchange(peer.timer, 0));
  for (auto& [ticket, reply] : std::exchange(peer.waiting, {})) reply(peer.Down());
}

void Peers::Forget(const std::string& name, const std::string& what) {
  Peer& peer = *peers_.at(name);
  const Status why(Code::kUnavailable, reasons::kPeerNotFound, "node " + name + " " + what);
  Distrust(peer, why);
  context_.loop.CancelTimer(peer.timer);
  for (auto& [ticket, reply] : std::exchange(peer.waiting, {})) reply(why);
  namesakes_.Forget(name);
  admission_.Forget(name);
  peers_.erase(name);
  addresses_.Leave(name);
}

std::set<std::string> Peers::Awaited() const {
  std::set<std::string> awaited;
  if (listener_.awaited) awaited = listener_.awaited();
  for (const auto& [name, peer] : peers_) {
    if (!peer->waiting.empty()) awaited.insert(name);
  }
  return awaited;
}

void Peers::Redial(Peer& peer) {
  peer.api.reset();
  peer.greeting = false;
  ++peer.attempt;
}

void Peers::Stop() {
  stopped_ = true;
  presence_.Stop();
  addresses_.Stop();
  for (auto& [name, peer] : peers_) {
    context_.loop.CancelTimer(peer->timer);
    peer->api.reset();
    for (auto& [ticket, reply] : std::exchange(peer->waiting, {})) reply(peer->Down());
  }
}

Status Peers::Admit(const std::string& node, bool local) {
  Status admitted = admission_.Admit(node, local);
  if (admitted.ok()) {
    if (!IsConnected(node)) presence_.Heard(node);
    return admitted;
  }
  const os::Clock::time_point now = os::Clock::now();
  if (now < next_refusal_logged_) {
    ++refusals_not_logged_;
    return admitted;
  }
  next_refusal_logged_ = now + kLogRefusalsEvery;
  log::Warning("call of a node refused",
               {{"node", Printable(node)},
                {"why", admitted.ToString()},
                {"more", std::to_string(std::exchange(refusals_not_logged_, 0))}});
  return admitted;
}

Introduction Peers::Introduce() const {
  Introduction self;
  self.node = context_.node();
  self.boot_id = context_.boot_id;
  self.protocol_min = kProtocolMin;
  self.protocol_max = kProtocolMax;
  self.version = context_.options.version;
  self.address = address_;
  self.uid_domain = UidDomain(context_.node());
  self.draining = context_.draining;
  self.files = true;
  self.writes_files = true;
  self.generation = catalog_.generation();
  self.capabilities = catalog_.capabilities();
  return self;
}

Peer& Peers::Ensure(const std::string& name, const std::string& address) {
  std::unique_ptr<Peer>& peer = peers_[name];
  if (peer == nullptr) {
    addresses_.Enter(name);
    peer = std::make_unique<Peer>(name, address);
    peer->why =
        Status(Code::kUnavailable, reasons::kPeerDown, "node " + name + " has not answered yet");
  }
  return *peer;
}

void Peers::TellAll() {
  for (const auto& [name, peer] : peers_) {
    if (IsConnected(name)) Greet(*peer);
  }
}

void Peers::Dial(Peer& peer) { peer.api = dialer_.Dial(peer.name, peer.where.address()); }

void Peers::Greet(Peer& peer) {
  if (stopped_ || peer.greeting) return;
  context_.loop.CancelTimer(std::exchange(peer.timer, 0));
  if (peer.api == nullptr) Dial(peer);
  catalog_.RefreshAfter(kDescribeEvery);
  HelloRequest request;
  request.self = Introduce();
  request.known_boot_id = peer.introduction.boot_id;
  request.known_generation = peer.generation;
  request.namesake = namesakes_.OtherOf(peer.name, peer.introduction.boot_id, os::Clock::now());
  peer.greeting = true;
  peer.greeting_since = os::Clock::now();
  peer.api->Hello(context_.node(), std::move(request),
                  [this, name = peer.name, attempt = ++peer.attempt](Result<HelloReply> reply) {
                    OnGreeted(name, attempt, std::move(reply));
                  });
}

void Peers::OnGreeted(const std::string& name, uint64_t attempt, Result<HelloReply> reply) {
  const auto found = peers_.find(name);
  if (stopped_ || found == peers_.end() || found->second->attempt != attempt) return;
  Peer& peer = *found->second;
  peer.greeting = false;
  if (!reply.ok()) {
    // A refused connection is news; a late answer may only mean that the machine is busy.
    const bool late = peer.is_up() && reply.status().code() == Code::kDeadlineExceeded;
    if (late && !peer.where.in_doubt() && ++peer.misses < kMaxMisses) {
      return Schedule(peer, context_.options.heartbeat);
    }
    return Missed(peer, NodeState::kDisconnected, reply.status());
  }
  peer.misses = 0;
  peer.where.Heard();
  peer.heard = os::Clock::now();
  if (Status wrong = Learn(peer, std::move(reply->self)); !wrong.ok()) {
    return Missed(peer, NodeState::kIncompatible, wrong);
  }
  namesakes_.Answered(name, peer.introduction.boot_id, peer.where.address(), peer.greeting_since);
  if (!reply->namesake.empty()) {
    namesakes_.Told(context_.node(), address_, name, reply->namesake, os::Clock::now());
  }
  peer.where.Settle();
  peer.failures = 0;
  if (peer.introduction.draining) {
    SetState(peer, NodeState::kDraining,
             {Code::kUnavailable, reasons::kDraining, "it takes no new transfers"});
  } else {
    SetState(peer, NodeState::kConnected, OkStatus());
  }
  Schedule(peer, peer.where.vanished() ? std::min<std::chrono::milliseconds>(
                                             context_.options.heartbeat, kVanishedHeartbeat)
                                       : context_.options.heartbeat);
}

void Peers::Missed(Peer& peer, NodeState state, const Status& why) {
  ++peer.failures;
  SetState(peer, state, why);
  if (!addresses_.Missed(peer)) Schedule(peer, Backoff(peer));
}

Status Peers::Learn(Peer& peer, Introduction introduction) {
  if (introduction.node != peer.name) {
    return {Code::kUnavailable, reasons::kPeerIncompatible,
            "" + peer.where.address() + " is node \"" + Printable(introduction.node) + "\", not " +
                peer.name,
            "correct the address, or the name under [peers]"};
  }
  addresses_.Seen(peer);
  const bool restarted =
      !peer.introduction.boot_id.empty() && peer.introduction.boot_id != introduction.boot_id;
  if (restarted) peer.generation = 0;
  std::optional<NodeCapability> capabilities = std::move(introduction.capabilities);
  introduction.capabilities.reset();
  peer.introduction = std::move(introduction);
  const Introduction& said = peer.introduction;
  if (said.protocol_min > kProtocolMax || said.protocol_max < kProtocolMin) {
    return {Code::kUnavailable, reasons::kPeerIncompatible,
            "node " + peer.name + " (version " + Printable(said.version) + ") speaks protocols " +
                std::to_string(said.protocol_min) + " to " + std::to_string(said.protocol_max) +
                ", this node " + std::to_string(kProtocolMin) + " to " +
                std::to_string(kProtocolMax),
            "install versions with a common protocol"};
  }
  if (capabilities && said.generation != peer.generation) {
    const NodeCapability before = std::exchange(peer.capabilities, std::move(*capabilities));
    peer.capabilities.node = peer.name;
    peer.generation = said.generation;
    if (!before.node.empty() && !restarted && listener_.changed) {
      listener_.changed(peer.name, before, peer.capabilities);
    }
  }
  if (restarted && listener_.met) listener_.met(peer.name, true);
  return OkStatus();
}

void Peers::SetState(Peer& peer, NodeState state, const Status& why) {
  const bool was_up = peer.is_up();
  peer.Enter(state, why);
  const bool is_up = peer.is_up();
  if (was_up && !is_up) {
    presence_.Lost(peer.name);
    if (listener_.lost) listener_.lost(peer.name);
  }
  if (is_up) presence_.Met(peer.name);
  // What is at an address where it never was says nothing of it.
  if (why.reason() == reasons::kCertRejected && listener_.distrusted && peer.where.answered()) {
    listener_.distrusted(peer.name, why);
  }
  if (!was_up && is_up && listener_.met) listener_.met(peer.name, false);
  if (is_up) {
    for (auto& [ticket, reply] : std::exchange(peer.waiting, {})) reply(peer.api.get());
  } else if (state == NodeState::kIncompatible) {
    // It has answered, and will not become another one within the grace.
    for (auto& [ticket, reply] : std::exchange(peer.waiting, {})) reply(why);
  }
}

void Peers::Schedule(Peer& peer, std::chrono::milliseconds delay) {
  context_.loop.CancelTimer(peer.timer);
  peer.timer = context_.loop.RunAfter(delay, [this, name = peer.name] {
    Peer& due = *peers_.at(name);
    due.timer = 0;
    Greet(due);
  });
}

// Doubles from the least to the most pause, and is spread by a quarter so that nodes do not dial in
// step.
std::chrono::milliseconds Peers::Backoff(Peer& peer) {
  const int doublings = std::min(peer.failures - 1, 20);
  const auto pause = std::min(context_.options.reconnect_delay_min * (int64_t{1} << doublings),
                              context_.options.reconnect_delay_max);
  const auto spread = static_cast<uint64_t>(pause.count() / 2 + 1);
  return pause * 3 / 4 +
         std::chrono::milliseconds(static_cast<int64_t>(os::RandomNumber() % spread));
}

void Peers::AnswerHello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) {
  if (address_.empty() || stopped_) {
    return reply(Status(Code::kUnavailable, reasons::kPeerDown,
                        "node " + context_.node() + " is not ready"));
  }
  const os::Clock::time_point now = os::Clock::now();
  if (caller == context_.node() && request.self.boot_id != context_.boot_id) {
    namesakes_.Told(context_.node(), address_, "", request.self.address, now);
  }
  if (request.self.node != caller || caller == context_.node() || !CheckName(caller, "node").ok()) {
    return reply(Status(
        Code::kInvalidArgument, reasons::kBadName,
        "node \"" + Printable(request.self.node) + "\" is not the caller, or has this node's name",
        "give every node its own name"));
  }
  if (!peers_.contains(caller) && !addresses_.MakeRoom()) {
    return reply(Status(Code::kResourceExhausted, reasons::kQuota, "too many peers"));
  }
  Peer& peer = Ensure(caller, request.self.address);
  const bool is_up = peer.is_up();
  const bool restarted = peer.introduction.boot_id != request.self.boot_id;
  if (is_up && restarted) {
    namesakes_.Called(caller, request.self.boot_id, request.self.address, now);
  }
  addresses_.Called(peer, request.self.address, restarted);
  if (!request.namesake.empty()) {
    namesakes_.Told(context_.node(), address_, caller, request.namesake, now);
  }
  catalog_.RefreshAfter(kDescribeEvery);
  HelloReply answer{Introduce(), namesakes_.OtherOf(caller, request.self.boot_id, now)};
  if (request.known_boot_id == context_.boot_id &&
      request.known_generation == catalog_.generation()) {
    answer.self.capabilities.reset();
  }
  // It is there: no need to wait for the next turn to greet it, and if it has changed, every reason
  // not to.
  if (!is_up || restarted || peer.introduction.draining != request.self.draining) {
    peer.failures = 0;
    Greet(peer);
  }
  reply(std::move(answer));
}

Result<PeerApi*> Peers::Find(const std::string& name) {
  const auto found = peers_.find(name);
  if (found == peers_.end()) {
    return Status(
        Code::kNotFound, reasons::kPeerNotFound,
        "node " + context_.node() + " does not know node \"" + Printable(name) + "\"",
        "onecopy node ls lists those it knows; --peer NAME=HOST:PORT or [peers] adds one");
  }
  const Peer& peer = *found->second;
  if (peer.is_up() && !stopped_) return peer.api.get();
  return peer.Down();
}

void Peers::WhenConnected(const std::string& name, Reply<PeerApi*> reply) {
  Result<PeerApi*> found = Find(name);
  const auto peer = peers_.find(name);
  if (found.ok() || peer == peers_.end() || stopped_) return reply(std::move(found));
  // On a wire that has just been mended an attempt from before may need longer than the grace.
  Peer& down = *peer->second;
  // One that left by itself may be back and not have called yet: it is greeted once.
  if (addresses_.IsHidden(name) && down.where.vanished()) return reply(down.Down());
  const bool stale = down.greeting && os::Clock::now() - down.greeting_since > kStaleAttempt;
  if (stale && down.waiting.empty()) {
    down.greeting = false;
    ++down.attempt;
    Dial(down);
  }
  const uint64_t ticket = os::RandomNumber();
  down.waiting.emplace_back(ticket, std::move(reply));
  Greet(down);
  context_.loop.RunAfter(kConnectGrace, [this, name, ticket] {
    const auto late = peers_.find(name);
    if (late == peers_.end()) return;
    auto& waiting = late->second->waiting;
    const auto mine = std::find_if(waiting.begin(), waiting.end(),
                                   [&](const auto& w) { return w.first == ticket; });
    if (mine == waiting.end()) return;
    Reply<PeerApi*> give_up = std::move(mine->second);
    waiting.erase(mine);
    give_up(late->second->Down());
  });
}

bool Peers::IsConnected(const std::string& name) const {
  const auto found = peers_.find(name);
  return found != peers_.end() && found->second->is_up();
}

const NodeCapability* Peers::Capabilities(const std::string& name) const {
  return IsConnected(name) ? &peers_.at(name)->capabilities : nullptr;
}

std::string Peers::UidDomain(const std::string& name) const {
  if (name == context_.node()) return admission_.OwnDomain();
  const auto found = peers_.find(name);
  if (found == peers_.end()) return {};
  return admission_.DomainOf(name, found->second->introduction.uid_domain);
}

bool Peers::TakesFiles(const std::string& name) const {
  const auto found = peers_.find(name);
  return found != peers_.end() && found->second->introduction.files;
}

bool Peers::WritesFiles(const std::string& name) const {
  const auto found = peers_.find(name);
  return found != peers_.end() && found->second->introduction.writes_files;
}

PeersFigures Peers::figures() const {
  PeersFigures figures;
  const os::Clock::time_point now = os::Clock::now();
  for (const auto& [name, peer] : peers_) {
    if (addresses_.IsHidden(name)) continue;
    ++figures.by_state[peer->state];
    // Of those that come by themselves and go, there may be many.
    const bool connected = IsConnected(name);
    if (!connected && !peer->where.configured() && !peer->where.discovered()) continue;
    if (figures.peers.size() >= kMaxPeersTold) continue;
    figures.peers.push_back({.name = name,
                             .connected = connected,
                             .silent_seconds = ToSeconds(now - peer->heard),
                             .state = peer->state,
                             .reason = peer->why.reason(),
                             .detail = peer->why.message()});
  }
  return figures;
}

std::vector<NodeInfo> Peers::Describe() const {
  std::vector<NodeInfo> all;
  all.reserve(peers_.size());
  for (const auto& [name, peer] : peers_) {
    if (!addresses_.IsHidden(name)) all.push_back(peer->Describe(UidDomain(name)));
  }
  return all;
}

Result<NodeInfo> Peers::Describe(const std::string& name) const {
  const auto found = peers_.find(name);
  if (found != peers_.end() && !addresses_.IsHidden(name)) {
    return found->second->Describe(UidDomain(name));
  }
  return Status(Code::kNotFound, reasons::kPeerNotFound,
                "node " + context_.node() + " does not know node \"" + Printable(name) + "\"",
                "onecopy node ls lists those it knows");
}

}  // namespace onecopy::engine
