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
#include "daemon/pipeline/small_gets.h"
#include "transport/core/contracts/small_copy_route.h"

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
  // Over a link, if the bytes are staged at one end or both: the route's copies, from the source's
  // buffer to RemoteRouteParams::into. It keeps `range` open.
  std::shared_ptr<SmallCopyRoute> staged = {};
  RegionRef registered = {};  // over a link: where its gets write
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
  // For one in place or staged: its memory is wanted back, or a copy has failed, and the route has
  // to go. Null: neither of these. May run more than once.
  std::function<void(const Status&)> recalled = {};
  pipeline::SmallGets::Explain explain = {};  // for one that is staged
};

// Engine thread; outlives whatever it makes.
class RemoteRoutes {
 public:
  struct Needs {
    Context& context;
    Peers& peers;
    const Planning& planning;
    Probes& probes;
    const Catalog& catalog;
    ImportedRange::Needs ranges;
    BorrowedRange::Needs borrowed;
  };

  explicit RemoteRoutes(const Needs& needs) : needs_(needs) {}

  // Fails as a transfer would, and with NOT_APPLICABLE if rings do not carry the best path.
  void Make(RemoteRouteParams params, Reply<RemoteRoute> reply);

 private:
  const Needs needs_;
};

// What a way between nodes holds goes on the engine's thread, and before waiting callers are told.
std::shared_ptr<SmallCopyRoute> OnEngine(os::EventLoop& loop, std::unique_ptr<SmallCopyRoute> way);

// What no ring carries.
Status NotByRing(std::string why);
Status TooLong();

}  // namespace onecopy::engine
