// The other nodes: introduces this one to them, keeps the acquaintance up, and notices when it
// ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/admission.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/namesakes.h"
#include "daemon/engine/peering/peer.h"
#include "daemon/engine/peering/peer_addresses.h"
#include "daemon/engine/peering/presence.h"

namespace onecopy::engine {

// Versions of what daemons say to each other (peer.proto, channels) that this one speaks.
inline constexpr uint32_t kProtocolMin = 1;
inline constexpr uint32_t kProtocolMax = 1;

// Engine thread. Each peer is greeted when it is first known and then again and again, as a
// heartbeat; one that does not answer is tried with growing pauses for ever. A node that calls, and
// that Admission lets in, becomes a peer although its address is not configured. Where they are
// dialled, and which of them are shown, PeerAddresses says.
class Peers : private PeerAddresses::Owner {
 public:
  Peers(Context& context, Catalog& catalog, PeerDialer& dialer);
  ~Peers() override;

  void Start(const std::string& address);  // of this node, as peers reach it
  void Stop();                             // ends all calls to peers

  // Other peers than were named before: see PeerAddresses.
  void Configure(const std::vector<PeerOptions>& peers);
  // See Admission.
  Status Admit(const std::string& node, bool local);

  Introduction Introduce() const;  // this node, with its capabilities
  // Greets every peer that answers, now: this node has changed.
  void TellAll();
  // What a peer asks of this node.
  void AnswerHello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply);

  // The peer if it is connected. NOT_FOUND (PEER_NOT_FOUND) for a name that nobody has; UNAVAILABLE
  // (PEER_DOWN, PEER_INCOMPATIBLE) for one that cannot be asked now.
  Result<PeerApi*> Find(const std::string& name);
  // Likewise, but gives a peer that is just being dialled a moment to answer, and greets one once
  // that is hidden because it was silent.
  void WhenConnected(const std::string& name, Reply<PeerApi*> reply);
  bool IsConnected(const std::string& name) const;
  // Null for a node that is not, or has not yet been, connected.
  const NodeCapability* Capabilities(const std::string& name) const;
  std::string UidDomain(const std::string& name) const;
  // Whether it takes bytes of files of other nodes; false for one that was never connected.
  bool TakesFiles(const std::string& name) const;
  // Likewise whether it writes files of its own for other nodes.
  bool WritesFiles(const std::string& name) const;
  // As Admission::CreateBytes.
  std::optional<uint64_t> CreateBytes(const std::string& name) const {
    return admission_.CreateBytes(name);
  }

  std::vector<NodeInfo> Describe() const;  // by name
  Result<NodeInfo> Describe(const std::string& name) const;

  // Names that two daemons have, as far as this node has seen or was told.
  std::vector<NameConflict> conflicts() const { return namesakes_.Known(os::Clock::now()); }

  // How they are, in numbers.
  PeersFigures figures() const;

  // `restarted`: the daemon that answers is not the one that answered before. A peer that is lost
  // and comes back the same is only lost, then met.
  struct Listener {
    std::function<void(const std::string& node)> lost;
    // It has been silent for so long that nothing is kept for it any more: see Presence.
    std::function<void(const std::string& node)> gone;
    // It is not to be believed any more: its certificate counts no more, or the configuration does
    // not name it, or not there, any more. Whatever is open to it has to end. After `lost`.
    std::function<void(const std::string& node, const Status& why)> distrusted;
    std::function<void(const std::string& node, bool restarted)> met;
    // It can do something else than before.
    std::function<void(const std::string& node, const NodeCapability& before,
                       const NodeCapability& now)>
        changed;
    // The nodes for which something waits that needs to know whether they restart.
    std::function<std::set<std::string>()> awaited;
  };
  void Listen(Listener listener) {
    listener_ = std::move(listener);
    presence_.OnGone(listener_.gone);
  }

 private:
  // PeerAddresses::Owner. A peer that is hidden and greeted stays so unless it answers.
  Peer& Ensure(const std::string& name, const std::string& address) override;
  void Greet(Peer& peer) override;
  void Schedule(Peer& peer, std::chrono::milliseconds delay) override;
  void Redial(Peer& peer) override;
  void Distrust(Peer& peer, const Status& why) override;
  void Silence(Peer& peer) override;
  void Forget(const std::string& name, const std::string& what) override;
  std::set<std::string> Awaited() const override;

  void Dial(Peer& peer);
  void OnGreeted(const std::string& name, uint64_t attempt, Result<HelloReply> reply);
  // It did not answer as a peer does.
  void Missed(Peer& peer, NodeState state, const Status& why);
  // Takes what the other side said of itself; what is wrong with it, if anything.
  Status Learn(Peer& peer, Introduction introduction);
  void SetState(Peer& peer, NodeState state, const Status& why);
  std::chrono::milliseconds Backoff(Peer& peer);

  Context& context_;
  Catalog& catalog_;
  PeerDialer& dialer_;
  Admission admission_;
  Presence presence_;
  Namesakes namesakes_;
  os::Clock::time_point next_refusal_logged_{};
  uint64_t refusals_not_logged_ = 0;
  PeersByName peers_;
  PeerAddresses addresses_;
  Listener listener_;
  std::string address_;  // empty before Start
  bool stopped_ = false;
};

}  // namespace onecopy::engine
