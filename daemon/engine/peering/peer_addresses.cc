#include "daemon/engine/peering/peer_addresses.h"

#include <algorithm>
#include <map>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxPeers = 4096;

}  // namespace

PeerAddresses::PeerAddresses(const Context& context, const Admission& admission,
                             const PeersByName& peers, Owner& owner)
    : context_(context),
      admission_(admission),
      peers_(peers),
      owner_(owner),
      room_(
          context.loop, kMaxPeers,
          std::max(context.options.resume_for, context.options.silent_peer_stays),
          {[this] { return owner_.Awaited(); },
           [this](const std::string& name, const std::string& what) { owner_.Forget(name, what); },
           [this](const std::string& name, const std::string& address) {
             Peer& peer = owner_.Ensure(name, address);
             Discovered(peer, address);
             owner_.Greet(peer);
           }}) {}

void PeerAddresses::Configure(const std::vector<PeerOptions>& peers) {
  room_.ForgetLeftOut();
  std::map<std::string, const PeerOptions*> addressed;
  for (const PeerOptions& options : peers) {
    if (options.address.empty()) continue;
    const auto [place, added] = addressed.try_emplace(options.name, &options);
    if (!added && !options.discovered) place->second = &options;
  }
  std::vector<std::string> gone;
  for (const auto& [name, peer] : peers_) {
    const auto found = addressed.find(name);
    const bool named = found != addressed.end();
    if (!named || found->second->discovered) peer->where.ConfigureNoMore();
    if (!named && !admission_.Expects(name)) {
      gone.push_back(name);
    } else if (!named && peer->where.discovered()) {
      Vanished(*peer);
    }
  }
  for (const std::string& name : gone) owner_.Forget(name, "was taken out of the configuration");
  std::vector<const PeerOptions*> unknown;
  for (const auto& [name, options] : addressed) {
    if (peers_.contains(name)) {
      Locate(*options, true);
    } else {
      unknown.push_back(options);
    }
  }
  // After the known ones: one of them that was hidden until now keeps its place.
  for (const PeerOptions* options : unknown) {
    if (options->discovered && !room_.Make()) {
      room_.LeaveOut(options->name, options->address);
    } else {
      Locate(*options, false);
    }
  }
}

void PeerAddresses::Locate(const PeerOptions& options, bool known) {
  Peer& peer = owner_.Ensure(options.name, options.address);
  // Others change often: one that is down, and was discovered before, is tried after its pause.
  const bool was_hidden = room_.IsHidden(peer.name);
  const bool waits = options.discovered && known && !was_hidden;
  if (options.discovered) {
    Discovered(peer, options.address);
  } else {
    Configured(peer, options.address);
  }
  if (was_hidden || (peer.state == NodeState::kDisconnected && !waits)) owner_.Greet(peer);
}

void PeerAddresses::Configured(Peer& peer, const std::string& address) {
  const bool moved = peer.where.Configure(address);
  room_.Show(peer.name);
  if (!moved) return;
  owner_.Distrust(peer, {Code::kUnavailable, reasons::kPeerDown,
                         "node " + peer.name + " has another address in the configuration now"});
  owner_.Redial(peer);
}

void PeerAddresses::Discovered(Peer& peer, const std::string& address) {
  const bool was_hidden = room_.IsHidden(peer.name);
  const Whereabouts::Next next = peer.where.Discover(address, peer.is_up());
  room_.Show(peer.name);
  if (was_hidden) peer.failures = 0;
  if (next == Whereabouts::Next::kAskHere) return owner_.Greet(peer);
  if (next == Whereabouts::Next::kMoveOn) TryElsewhere(peer);
}

void PeerAddresses::Vanished(Peer& peer) {
  peer.where.Vanish();
  if (!peer.is_up()) return Hide(peer);
  owner_.Greet(peer);  // is it still there?
}

// What it was is needed to tell whether it has restarted.
void PeerAddresses::Hide(Peer& peer) {
  if (room_.Hide(peer.name)) {
    log::Info(peer.where.vanished()
                  ? "peer is gone: discovery has lost it, and it does not answer"
                  : "peer is gone: it neither calls nor answers, and was not discovered",
              {{"peer", peer.name}, {"address", peer.where.address()}});
  }
  owner_.Silence(peer);
}

bool PeerAddresses::HasLeft(const Peer& peer) const {
  const Options& options = context_.options;
  return !peer.where.configured() && !peer.where.discovered() && !admission_.Names(peer.name) &&
         os::Clock::now() - peer.there >=
             std::max(options.silent_peer_stays, 3 * options.heartbeat);
}

bool PeerAddresses::TryElsewhere(Peer& peer) {
  if (!peer.where.MoveOn()) return false;
  peer.failures = 0;
  owner_.Redial(peer);
  owner_.Schedule(peer, std::chrono::milliseconds(0));
  return true;
}

void PeerAddresses::Seen(Peer& peer) {
  peer.there = os::Clock::now();
  room_.Show(peer.name);
}

void PeerAddresses::Called(Peer& peer, const std::string& said, bool restarted) {
  const bool moved = peer.where.IsNews(said);
  Seen(peer);
  if (peer.is_up() && restarted) {
    // Not before it is known that the one that was there does not answer any more.
    peer.where.Doubt(said);
  } else if (moved && !peer.is_up() && (!peer.where.discovered() || peer.failures > 0)) {
    // What was discovered may be behind, and is tried again if this is wrong.
    peer.where.Follow(said);
    owner_.Redial(peer);
  }
}

bool PeerAddresses::Missed(Peer& peer) {
  if (room_.IsHidden(peer.name) || peer.where.vanished() || HasLeft(peer)) {
    Hide(peer);
    return true;
  }
  return TryElsewhere(peer);
}

}  // namespace onecopy::engine
