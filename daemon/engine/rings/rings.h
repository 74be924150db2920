// Clients' rings, as far as they are state of the engine: who has one, what its routes rest on, and
// the receipts of what went by them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/base/quota.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/pipeline/short_gets.h"
#include "daemon/ring/ring_thread.h"

namespace onecopy::engine {

// Engine thread. A route is checked here once, as a transfer would be; the ring's thread then lets
// submissions have what the route allows, until it is withdrawn: because a buffer, a grant or the
// session it rests on ends. Withdrawing takes effect at once for what is not under way yet.
class Rings final : public RingApi {
 public:
  Rings(Parts& parts, std::chrono::nanoseconds spin);

  void OpenRing(const SessionId& session, Reply<RingGiven> reply) override;
  void OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                 Reply<RingRoute> reply) override;

  void EndSession(const SessionId& session);
  void DropBuffer(BufferId buffer, const Status& why);
  void DropGrant(const GrantId& grant, const Status& why);
  void DropPeer(const std::string& node, const Status& why);
  // A connection that this node answered has closed.
  void DropConnection(uint64_t number, const Status& why);
  // Runs `then` once no route holds that buffer's memory: it has been dropped.
  void WhenLetGo(BufferId buffer, Task then);

  // Puts what the rings' journals have of one transfer, or of all lately, into the table of
  // transfers.
  void File(const TransferId& id);
  void FileAll();

  // Refuses what is submitted from now on.
  void Drain() { thread_.Drain(); }
  // At the engine's end.
  void Clear();

 private:
  // What a route is, kept longer than it for the receipts of what went by it.
  struct Description {
    std::shared_ptr<ring::Route> route;
    uint32_t place = 0;
    bool open = true;
    std::vector<BufferId> buffers;  // of this node
    std::string peer;               // the other node, where it leads to one or comes from one
    TransferId push;                // where that gets what it is told to: of its ticket
    uint64_t connection = 0;        // likewise: as this node answered it
    std::vector<GrantId> grants;
    RingRoute given;
    std::shared_ptr<const ShortSteps> steps;
    LinkAccess access;  // of a route over a link
    Quota::Charge charge = {};
  };
  struct Ring {
    ring::RingThread::RingId id = 0;
    SessionId session;
    Owner owner;
    bool administrator = false;
    std::string prefix;
    Quota::Charge charge = {};
    std::shared_ptr<ring::Journal> journal;
    std::map<uint64_t, Description> routes;                 // by serial
    std::array<bool, ring::kRoutes> used{};                 // places
    std::array<uint64_t, ring::Journal::kEntries> filed{};  // by slot: the number, plus one
  };
  using RingRef = std::shared_ptr<Ring>;
  struct Unfiled {
    ring::Entry entry;
    Ring* ring;
  };

  Result<plan::Plan> MakePlan(const Place& source, const Place& destination) const;
  Description Describe();
  void OpenInside(const RingRef& ring, const Principal& who, const Endpoint& source,
                  const Endpoint& destination, Reply<RingRoute> reply);
  void OpenFrom(const RingRef& ring, const Principal& who, Endpoint source,
                const Endpoint& destination, Reply<RingRoute> reply);
  void OpenTo(const RingRef& ring, const Principal& who, const Endpoint& source,
              Endpoint destination, Reply<RingRoute> reply);
  void Opened(const RingRef& ring, uint64_t channel, Description description, OpenPushReply opened,
              Reply<RingRoute> reply);
  pipeline::ShortGets::Explain WhyClosed(const Principal& who, const Endpoint& source);
  UniqueFunction<void(const Status&)> FailureOf(const RingRef& ring, const ring::Route& route);
  std::shared_ptr<ShortRoute> OnEngine(std::unique_ptr<ShortRoute> way) const;
  void Install(const RingRef& ring, Description description, std::shared_ptr<ShortRoute> way,
               Reply<RingRoute> reply);
  // What went wrong with one of its copies would go wrong with the next.
  void Fail(const std::string& prefix, uint64_t serial, const Status& why);
  // Why what a route was to rest on is there no more, if so.
  Status WhatEnded(const Ring& ring, const Description& description) const;
  void Withdraw(Ring& ring, Description& description, const Status& why);
  template <typename Rests>
  void WithdrawAll(const Rests& rests, const Status& why);
  void Forget(Ring& ring);
  void Ended(const RingRef& ring);

  void Collect(Ring& ring, std::vector<Unfiled>* unfiled) const;
  void FileEntries(std::vector<Unfiled> unfiled);
  void FileEntry(Ring& ring, const ring::Entry& entry);
  // What the route tells of the transfer; how that ended.
  Status DescribeEntry(const Description& description, const ring::Entry& entry,
                       TransferInfo* into) const;

  Parts& parts_;
  const std::chrono::nanoseconds spin_;
  std::map<SessionId, RingRef> rings_;
  std::map<std::string, RingRef> by_prefix_;  // those that are ending, too
  Quota quota_;
  Quota route_quota_;
  const std::shared_ptr<os::Closer> closer_ = std::make_shared<os::Closer>();
  struct LettingGo {
    size_t routes = 0;
    std::vector<Task> waiting;
  };
  std::map<BufferId, LettingGo> letting_go_;
  uint64_t next_ring_ = 1;
  uint64_t next_route_ = 1;
  ring::RingThread thread_;
};

}  // namespace onecopy::engine
