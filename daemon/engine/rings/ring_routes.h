// Makes the routes of rings: inside the node, from other nodes, and to them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/rings/client_ring.h"
#include "daemon/engine/rings/remote_route.h"
#include "daemon/engine/rings/ring_end.h"
#include "daemon/pipeline/small_gets.h"

namespace onecopy::engine {

// Engine thread; outlives whatever it makes. A route is checked as a transfer would be; what it
// rests on may have ended by the time that it is made.
class RingRoutes {
 public:
  struct Needs {
    Context& context;
    Buffers& buffers;
    Grants& grants;
    Tickets& tickets;
    Peers& peers;
    Connections& connections;
    const Planning& planning;
    RemoteRoutes& remote;
  };
  struct Params {
    Principal who;
    Endpoint source;
    Endpoint destination;
    uint64_t serial = 0;  // of the route
    std::string prefix;   // of its transfers' ids
    // Runs on the engine's thread when one of the route's copies has gone wrong.
    std::function<void(const Status&)> failed;
  };
  struct Made {
    RouteRecord record;
    std::shared_ptr<SmallCopyRoute> way;
    std::shared_ptr<SmallCopyRoute> long_way;  // null where there is none
  };

  explicit RingRoutes(const Needs& needs) : needs_(needs) {}

  // Fails as a transfer would; NOT_APPLICABLE for what no ring carries.
  void Make(Params params, Reply<Made> reply);

 private:
  Result<plan::Path> MakePlan(const Place& source, const Place& destination, uint64_t bytes) const;
  Result<RingEnd> FindEnd(const Principal& who, const Endpoint& end, Access access) const;
  // Memory that this node copies by itself.
  struct Ends {
    RegionRef from;
    RegionRef to;
    std::shared_ptr<BorrowedRange> borrowed;  // that `from` is of; null: of this node's own
    uint64_t bytes = 0;                       // that the first transfer has
  };

  void MakeInside(const Params& params, Reply<Made> reply);
  void Prepare(const Params& params, Ends ends, RouteRecord record, Reply<Made> reply);
  void MakeFrom(Params params, Reply<Made> reply);
  void MakeTo(Params params, Reply<Made> reply);
  // On which the other node is asked for short transfers, and for long ones.
  struct Channels {
    uint64_t short_ones = 0;
    uint64_t long_ones = 0;
  };
  // `bytes`: that the first transfer has.
  void Opened(const Params& params, const Channels& channels, uint64_t bytes, RouteRecord record,
              OpenPushReply opened, Reply<Made> reply);
  pipeline::SmallGets::Explain WhyClosed(const Principal& who, const Endpoint& source);
  UniqueFunction<void(const Status&)> FailureOf(const Params& params) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
