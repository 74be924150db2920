// What went by rings, added to what is counted of transfers.
#pragma once

#include "daemon/engine/rings/client_ring.h"
#include "daemon/engine/transfers/tally.h"

namespace onecopy::engine {

// Engine thread. The ring's thread only counts, by route; these add what has come since the last
// time, so each transfer is added once and nothing ever falls. Called before a route or a ring is
// forgotten, and when a client or a scrape asks. What is refused on a route that was forgotten is
// not counted.
void AddRoute(RouteRecord& route, Tally& tally);
// All of its routes, and what named none. Those that are settled, of which there may be many, are
// left out unless `all`: what was refused on them since is added in the end.
void AddRing(ClientRing& ring, Tally& tally, bool all);

}  // namespace onecopy::engine
