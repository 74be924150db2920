// At which address each peer is dialled, and which peers are shown.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/admission.h"
#include "daemon/engine/peering/peer.h"
#include "daemon/engine/peering/peer_room.h"

namespace onecopy::engine {

// Puts together what the configuration, discovery and the peers themselves say (Whereabouts, of
// each peer), with which of them have room (PeerRoom). A discovered peer with another address than
// before is dialled there once it does not answer at the old one; one that is not discovered any
// more stays as long as it answers, and is then hidden: not greeted, not shown, and forgotten
// unless it comes back in time. So is one that came by itself, once it has been silent for
// silent_peer_stays. Engine thread.
class PeerAddresses {
 public:
  // What it calls, also by itself on the loop: the owner of the peers, which greets them.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The peer of that name; if there is none, a new one at `address`, for which it calls Enter.
    virtual Peer& Ensure(const std::string& name, const std::string& address) = 0;
    // Asks the peer whether it answers, unless that is under way.
    virtual void Greet(Peer& peer) = 0;
    // Likewise after a pause.
    virtual void Schedule(Peer& peer, std::chrono::milliseconds delay) = 0;
    // Its address is another one than before: the next greeting goes there.
    virtual void Redial(Peer& peer) = 0;
    // It is down, and what was there is not to be believed any more.
    virtual void Distrust(Peer& peer, const Status& why) = 0;
    // It is hidden: not greeted any more, and calls that wait for it are told that it is down.
    virtual void Silence(Peer& peer) = 0;
    // It is not a peer any more. Calls Leave.
    virtual void Forget(const std::string& name, const std::string& what) = 0;
    // The nodes for which something waits.
    virtual std::set<std::string> Awaited() const = 0;
  };

  // All of them must outlive this one; `peers` are the owner's.
  PeerAddresses(const Context& context, const Admission& admission, const PeersByName& peers,
                Owner& owner);

  // Other peers than were named before, and `admission` knows it already: new ones are greeted,
  // those with another address in the configuration are dialled there, and those that it does not
  // name any more are forgotten. Discovered ones that find no room wait for it.
  void Configure(const std::vector<PeerOptions>& peers);
  // The peer is at the address of these options. `known`: there was a peer of that name before.
  void Locate(const PeerOptions& options, bool known);

  // Whether there is room for one more peer, as PeerRoom::Make.
  bool MakeRoom() { return room_.Make(); }
  void Enter(const std::string& name) { room_.Enter(name); }
  void Leave(const std::string& name) { room_.Leave(name); }

  // The peer, and no other, has answered or called: it is there, and not hidden any more.
  void Seen(Peer& peer);
  // It has called, and says that it is at `said`. `restarted`: it is not the one that was heard
  // last. What is said is followed if the peer does not answer where it is.
  void Called(Peer& peer, const std::string& said, bool restarted);
  // It does not answer as a peer does. Returns false if it is to be greeted at the same address
  // again, after a pause; else it is hidden, or was found another address.
  bool Missed(Peer& peer);

  bool IsHidden(const std::string& name) const { return room_.IsHidden(name); }

  void Stop() { room_.Stop(); }  // nothing leaves or is taken by itself any more

 private:
  // Its address is that one now, as the configuration says, or as discovery does.
  void Configured(Peer& peer, const std::string& address);
  void Discovered(Peer& peer, const std::string& address);
  // It is not discovered any more.
  void Vanished(Peer& peer);
  // Whether it came by itself and has been silent for too long to be kept for that.
  bool HasLeft(const Peer& peer) const;
  void Hide(Peer& peer);
  // Has it dialled where else it may be; it does not answer where it was. False: nowhere.
  bool TryElsewhere(Peer& peer);

  const Context& context_;
  const Admission& admission_;
  const PeersByName& peers_;
  Owner& owner_;
  PeerRoom room_;
};

}  // namespace onecopy::engine
