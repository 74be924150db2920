// The way from a buffer of another node to one of this node's, for a ring: negotiated once, as a
// transfer is each time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/api/types.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/rings/held_range.h"

namespace onecopy::engine {

struct RemoteRoute {
  plan::Plan plan;
  Endpoint source;  // what may be read, in full
  std::shared_ptr<HeldRange> range;
};

// `source` names the node. Without a reservation, all of the source's buffer is asked for, or,
// where `who` may not have it, the range of `source`.
struct RemoteRouteOrder {
  Principal who;
  Endpoint source;
  RegionRef into;
  std::string client_buffer;  // as HeldRange's
  TransferId id;              // for the ticket
  std::optional<Reservation> reservation = {};
};
// Engine thread. Fails as a transfer would, and with NOT_APPLICABLE where the best path is not one
// get for each copy.
void MakeRemoteRoute(Parts& parts, RemoteRouteOrder order, Reply<RemoteRoute> reply);

// What no ring carries.
Status NotByRing(std::string why);

}  // namespace onecopy::engine
