// A client's ring and its routes, as the engine knows them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/sharing/borrowed_range.h"
#include "daemon/log/line_limit.h"
#include "daemon/ring/ring_thread.h"
#include "transport/core/contracts/link.h"

namespace onecopy::engine {

// What a route is, kept longer than it for the receipts of what went by it: its own charge is then
// given back, and the ring's takes its place.
struct RouteRecord {
  std::shared_ptr<ring::Route> route;
  uint32_t place = 0;
  bool open = true;
  std::vector<BufferId> buffers;  // of this node, the destination's last
  std::string peer;               // the other node, where it leads to one or comes from one
  TransferId push;                // where that gets what it is told to: of its ticket
  uint64_t connection = 0;        // likewise: as this node answered it
  // Set if the other node stages the bytes: it may still write after it can read nothing here. Its
  // transfers have ended once it has closed this opening.
  std::optional<uint64_t> ends_with = {};
  // Of a route that was withdrawn and leads to another node: cancels what is under way there.
  std::function<void()> cancel = {};
  const Connection* reads_on = nullptr;  // the route's own, where this node gets
  std::vector<GrantId> grants;
  RingRoute given;
  std::shared_ptr<const SmallSteps> steps;
  std::shared_ptr<const SmallSteps> list_steps;
  LinkAccess access;  // of a route over a link
  // Of its long way, by a probe; 0: by none. Nothing: it has no long way.
  std::optional<double> long_bytes_per_second = {};
  // Of one whose copies this node makes by itself: where the bytes come from.
  std::string from_node = {};
  Place from_place = {};
  std::weak_ptr<BorrowedRange> borrowed = {};  // in which they lie, of another daemon
  std::string shared = {};                     // how that shares it: "vmm-fd"
  Ledger::Charge charge = {};
  ring::Counts::Values counted = {};  // of the route's counts: what the tally has already
  bool settled = false;               // nothing more succeeds by it: see AddRing
};

struct ClientRing {
  ring::RingThread::RingId id = 0;
  SessionId session;
  Owner owner;
  bool administrator = false;
  std::string prefix;
  Ledger::Charge charge = {};  // with the descriptions of routes that are gone
  uint64_t gone = 0;           // how many of these there are
  std::shared_ptr<ring::Journal> journal;
  ring::Counts::Values counted = {};                      // likewise of what named no route
  std::map<uint64_t, RouteRecord> routes;                 // by serial
  std::array<bool, ring::kRoutes> used{};                 // places
  std::vector<Task> waiting;                              // for a place that becomes free
  std::array<uint64_t, ring::Journal::kEntries> filed{};  // by slot: the number, plus one
  // Of long transfers.
  static constexpr uint64_t kLinesPerSecond = 100;
  log::LineLimit succeeded_lines{kLinesPerSecond};
  log::LineLimit failed_lines{kLinesPerSecond};
};

}  // namespace onecopy::engine
