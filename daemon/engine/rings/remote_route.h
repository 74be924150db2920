// The way from a buffer of another node to one of this node's, for a ring: negotiated once, as a
// transfer is each time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/api/types.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/sharing/borrowed_range.h"
#include "daemon/engine/staging/imported_range.h"

namespace onecopy::engine {

struct RemoteRoute {
  Plan plan;
  Endpoint source;                          // what may be read, in full
  std::shared_ptr<ImportedRange> range;     // over a link; or
  std::shared_ptr<BorrowedRange> borrowed;  // in place
  bool whole = false;                       // `source` is all of its buffer
  uint64_t bytes = 0;                       // that the first transfer has
  Place place = {};                         // where the source's memory is
  // Of one in place, whether long transfers take the same path, which a probe found this fast.
  std::optional<double> long_bytes_per_second = {};
  // Over a link: the channel on which the source's node answers with checksums; 0: none.
  uint64_t sums_channel = 0;
};

// `source` names the node. Without a reservation, all of the source's buffer is asked for, or,
// where `who` may not have it, the range of `source`.
struct RemoteRouteParams {
  Principal who;
  Endpoint source;
  RegionRef into;
  std::string client_buffer;  // see Registrations::Ensure
  TransferId id;              // for the ticket
  std::optional<Reservation> reservation = {};
  bool sums = false;  // checksums will be asked for
  // For one in place: its memory is wanted back, and the route has to go. Null: none in place.
  std::function<void(const Status&)> recalled = {};
};

// Engine thread; outlives whatever it makes.
class RemoteRoutes {
 public:
  struct Needs {
    const Context& context;
    Peers& peers;
    const Planning& planning;
    Probes& probes;
    const Catalog& catalog;
    ImportedRange::Needs ranges;
    BorrowedRange::Needs borrowed;
  };

  explicit RemoteRoutes(const Needs& needs) : needs_(needs) {}

  // Fails as a transfer would, and with NOT_APPLICABLE where the best path is neither one get for
  // each copy nor a copy out of memory that this node uses in place.
  void Make(RemoteRouteParams params, Reply<RemoteRoute> reply);

 private:
  const Needs needs_;
};

// What no ring carries.
Status NotByRing(std::string why);
Status TooLong();

}  // namespace onecopy::engine
