// Clients' rings, as far as they are state of the engine: who has one, what its routes rest on, and
// the receipts of what went by them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/rings/client_ring.h"
#include "daemon/engine/rings/ring_receipts.h"
#include "daemon/engine/rings/ring_routes.h"
#include "daemon/engine/rings/ring_tally.h"
#include "daemon/ring/ring_thread.h"

namespace onecopy::engine {

// Engine thread. A route is checked here once, as a transfer would be; the ring's thread then lets
// submissions have what the route allows, until it is withdrawn: because a buffer, a grant or the
// session it rests on ends. Revoking takes effect at once for what is not under way yet.
class Rings final : public RingApi {
 public:
  struct Needs {
    Context& context;
    const Sessions& sessions;
    Buffers& buffers;
    Grants& grants;
    Peers& peers;
    Openings& openings;
    RingRoutes& routes;
    RingReceipts& receipts;
    Tally& tally;
    ring::RingThread& thread;
  };

  Rings(const Needs& needs, std::chrono::nanoseconds spin);

  void OpenRing(const SessionId& session, Reply<RingGiven> reply) override;
  void OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                 Reply<RingRoute> reply) override;

  void EndSession(const SessionId& session);
  void DropBuffer(BufferId buffer, const Status& why);
  void DropGrant(const GrantId& grant, const Status& why);
  void DropPeer(const std::string& node, const Status& why);
  // [qos] has changed: what no longer goes by rings gets no further by them.
  void DropLimited();
  // A connection that this node answered has closed.
  void DropConnection(uint64_t number, const Status& why);
  // A connection on which this node reads has closed.
  void DropReading(const Connection& connection, const Status& why);
  // Runs `then` once no route holds that buffer's memory: it has been dropped.
  void WhenReleased(BufferId buffer, Task then);

  // Puts what the rings' journals have of one transfer, or of all lately, into the table of
  // transfers.
  void File(const TransferId& id);
  void FileAll();

  // Brings the tally up to what the rings have carried until now.
  void AddToTally();

  // Refuses what is submitted from now on; or no longer.
  void Drain(bool draining) { needs_.thread.Drain(draining); }
  // At the engine's end.
  void Clear();

 private:
  using RingRef = std::shared_ptr<ClientRing>;

  // Tells of the long transfers that have ended since.
  void TakeLongEnds(ClientRing& ring);
  // Likewise, of a few at a time: the engine has other clients.
  void HearOfLongEnds(const std::weak_ptr<ClientRing>& known);
  // Gives a route that was made its place in the ring; where there is none, that of one which was
  // not used lately, once nothing of it is under way.
  void Install(const RingRef& ring, RingRoutes::Made made, Reply<RingRoute> reply);
  // Withdraws, of these rings, the route that has been idle for longest, if that is long enough.
  bool MakeRoom(const std::vector<RingRef>& rings);
  std::vector<RingRef> RingsOf(const Owner& owner) const;
  // What went wrong with one of its copies would go wrong with the next.
  void Fail(const std::string& prefix, uint64_t serial, const Status& why);
  // Why what a route was to rest on is there no more, if so.
  Status WhatEnded(const ClientRing& ring, const RouteRecord& route) const;
  void Revoke(ClientRing& ring, RouteRecord& route, const Status& why);
  // Runs `closed` once that node has closed what it opened for a route, or is gone.
  void AskToClose(const std::string& node, uint64_t opening, Task closed);
  template <typename Rests>
  void RevokeAll(const Rests& rests, const Status& why);
  // Descriptions of routes that are gone, the oldest first, until there are `most` in all. What
  // went by them is filed while it can be described.
  void Forget(ClientRing& ring, size_t most);
  void Ended(const RingRef& ring);

  const Needs needs_;
  const std::chrono::nanoseconds spin_;
  std::map<SessionId, RingRef> rings_;
  std::map<std::string, RingRef> by_prefix_;  // those that are ending, too
  const std::shared_ptr<os::Closer> closer_ = std::make_shared<os::Closer>();
  struct Releasing {
    size_t routes = 0;
    std::vector<Task> waiting;
  };
  std::map<BufferId, Releasing> releasing_;
  uint64_t next_ring_ = 1;
  uint64_t next_route_ = 1;
};

}  // namespace onecopy::engine
