#include "daemon/engine/rings/rings.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/rings/ring_shares.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::engine {
namespace {

// Of one ring, with those of routes that are gone.
constexpr size_t kMaxDescriptions = ring::kRoutes + 256;
constexpr size_t kPrefixBytes = 8;
// About a quarter of a millisecond of the engine's time.
constexpr uint64_t kLongEndsAtATime = 16;
constexpr std::chrono::milliseconds kAskAgain{100};
static_assert(sizeof(ring::Shared) + ring::Journal::kBytes + sizeof(ring::Journal) +
                  sizeof(ClientRing) <=
              kChargedOfARing);

}  // namespace

Rings::Rings(const Needs& needs, std::chrono::nanoseconds spin) : needs_(needs), spin_(spin) {}

void Rings::OpenRing(const SessionId& session, Reply<RingGiven> reply) {
  Result<Principal> who = needs_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  Ledger::Charge charge;
  if (const auto known = rings_.find(session); known != rings_.end()) {
    // A client that had no room for its descriptors has none, and asks again.
    if (!known->second->routes.empty()) {
      return reply(
          Status(Code::kAlreadyExists, reasons::kNameTaken, "this session already uses a ring"));
    }
    charge = std::move(known->second->charge);
    EndSession(session);
  } else if (Status full = needs_.context.ledger.TakeInto(charge, Charged::kRings, OwnerOf(*who),
                                                          who->administrator);
             !full.ok()) {
    return reply(full);
  }
  Result<ring::DaemonEnd> end = ring::DaemonEnd::Make();
  if (!end.ok()) return reply(end.status());
  int pair[2];
  // Two open files: what the client sets on its own does nothing to the daemon's.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return reply(os::ErrnoStatus(errno, "making the socket of a ring"));
  }
  os::PassedFd here(os::UniqueFd{pair[0]}, closer_, who->uid.payer());
  (void)os::RefuseDescriptors(here.get());  // where that cannot be, the ring's thread takes none
  RingGiven given{os::UniqueFd::DuplicateOf(end->memory()), os::UniqueFd(pair[1]),
                  os::RandomHex(kPrefixBytes), spin_, OwnerOf(*who).ToString()};
  if (!given.memory) return reply(os::ErrnoStatus(errno, "duplicating the memory of a ring"));

  auto ring = std::make_shared<ClientRing>();
  ring->id = next_ring_++;
  ring->session = session;
  ring->owner = OwnerOf(*who);
  ring->administrator = who->administrator;
  ring->charge = std::move(charge);
  ring->prefix = given.prefix;
  ring->journal = std::make_shared<ring::Journal>(
      [this, &loop = needs_.context.loop, known = std::weak_ptr(ring)] {
        loop.Post([this, known] { HearOfLongEnds(known); });
      });
  needs_.thread.Add(ring->id, std::move(*end), std::move(here), ring->journal,
                    [&loop = needs_.context.loop, owner = ring->owner.ToString()] {
                      loop.Post([owner] {
                        log::Warning("a client broke the format of its ring, which was closed",
                                     {{"owner", owner}});
                      });
                    });
  rings_[session] = ring;
  by_prefix_[ring->prefix] = ring;
  reply(std::move(given));
}

void Rings::OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                      Reply<RingRoute> reply) {
  Result<Principal> who = needs_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  const auto found = rings_.find(session);
  if (found == rings_.end()) return reply(NotByRing("this session has no ring"));
  const Context& context = needs_.context;
  if (context.draining) {
    return reply(Status(Code::kUnavailable, reasons::kDraining,
                        "node " + context.node() + " is shutting down and takes no new transfers"));
  }
  const RingRef ring = found->second;
  const uint64_t serial = next_route_++;
  auto failed = [this, prefix = ring->prefix, serial](const Status& why) {
    Fail(prefix, serial, why);
  };
  // The client asks by gRPC then, and is told nothing of this.
  reply = [from = source.ToString(), to = destination.ToString(),
           reply = std::move(reply)](Result<RingRoute> made) mutable {
    if (!made.ok()) {
      log::Debug("no route by a ring",
                 {{"from", from}, {"to", to}, {"why", made.status().ToString()}});
    }
    reply(std::move(made));
  };
  needs_.routes.Make({std::move(*who), std::move(source), std::move(destination), serial,
                      ring->prefix, std::move(failed)},
                     [this, ring, reply = std::move(reply)](Result<RingRoutes::Made> made) mutable {
                       if (!made.ok()) return reply(made.status());
                       Install(ring, std::move(*made), std::move(reply));
                     });
}

Status Rings::WhatEnded(const ClientRing& ring, const RouteRecord& route) const {
  const auto current = rings_.find(ring.session);
  if (current == rings_.end() || current->second.get() != &ring) {
    return {Code::kAborted, reasons::kOwnerDied, "the client has gone"};
  }
  if (!route.peer.empty() && !needs_.peers.IsConnected(route.peer)) {
    return {Code::kUnavailable, reasons::kPeerDown, "node " + route.peer + " does not answer"};
  }
  const std::shared_ptr<BorrowedRange> borrowed = route.borrowed.lock();
  if (borrowed != nullptr && !borrowed->recalled().ok()) return borrowed->recalled();
  if (needs_.context.IsSelf(route.given.destination.node)) {
    ONECOPY_RETURN_IF_ERROR(MayGoByRing(needs_.context, ring.owner, needs_.context.node()));
  }
  for (const BufferId id : route.buffers) {
    const Buffer* buffer = needs_.buffers.FindById(id);
    if (buffer == nullptr || !buffer->removing.ok()) {
      return {Code::kNotFound, reasons::kBufferNotFound,
              "a buffer of the route was removed while the route was being made"};
    }
  }
  for (const GrantId& id : route.grants) {
    if (needs_.grants.Find(id) == nullptr) {
      return {Code::kPermissionDenied, reasons::kNotOwner,
              "the right that the route needs ended while the route was being made"};
    }
  }
  return OkStatus();
}

void Rings::Install(const RingRef& ring, RingRoutes::Made made, Reply<RingRoute> reply) {
  RouteRecord& route = made.record;
  if (Status ended = WhatEnded(*ring, route); !ended.ok()) return reply(ended);
  const auto place = std::find(ring->used.begin(), ring->used.end(), false);
  if (place == ring->used.end()) {
    if (!MakeRoom({ring})) {
      return reply(Status(Code::kResourceExhausted, reasons::kQuota,
                          "a ring has " + std::to_string(ring::kRoutes) + " routes at most"));
    }
    ring->waiting.emplace_back(
        [this, ring, made = std::move(made), reply = std::move(reply)]() mutable {
          Install(ring, std::move(made), std::move(reply));
        });
    return;
  }
  const auto charged = [&] {
    return needs_.context.ledger.TakeInto(route.charge, Charged::kRoutes, ring->owner,
                                          ring->administrator);
  };
  Status full = charged();
  if (!full.ok() && MakeRoom(RingsOf(ring->owner))) full = charged();
  if (!full.ok()) {
    for (const RingRef& one : RingsOf(ring->owner)) Forget(*one, 0);
    full = charged();
  }
  if (!full.ok()) return reply(full);
  route.steps = made.way->steps();
  route.route->way = std::move(made.way);
  route.route->long_way = std::move(made.long_way);
  route.given.max_bytes = route.route->max_bytes();
  route.given.max_list_bytes = route.route->max_list_bytes();
  route.given.sums = route.route->sums();
  route.list_steps = route.route->ListWay().list_steps();
  if (const StepList steps = route.list_steps->Get(); steps != nullptr) {
    route.given.list_steps = *steps;
  }
  *place = true;
  const uint64_t serial = route.route->serial;
  route.place = static_cast<uint32_t>(place - ring->used.begin());
  route.given.word = ring::RouteWord(serial, route.place);
  RingRoute given = route.given;
  needs_.thread.Install(
      ring->id, route.place, route.route,
      [&loop = needs_.context.loop, given = std::move(given), reply = std::move(reply)]() mutable {
        loop.Post([given = std::move(given), reply = std::move(reply)]() mutable {
          reply(std::move(given));
        });
      });
  ring->routes.emplace(serial, std::move(route));
  Forget(*ring, kMaxDescriptions);
}

std::vector<Rings::RingRef> Rings::RingsOf(const Owner& owner) const {
  std::vector<RingRef> found;
  for (const auto& [session, ring] : rings_) {
    if (ring->owner == owner) found.push_back(ring);
  }
  return found;
}

bool Rings::MakeRoom(const std::vector<RingRef>& rings) {
  // A client that uses more pairs of buffers in turn than there are routes must not make each
  // again.
  auto longest_idle = ring::Clock::now() - needs_.context.options.unused_route;
  ClientRing* of = nullptr;
  RouteRecord* oldest = nullptr;
  for (const RingRef& ring : rings) {
    for (auto& [serial, route] : ring->routes) {
      const auto idle_since = route.route->idle_since();
      if (!route.open || !idle_since || *idle_since > longest_idle) continue;
      longest_idle = *idle_since;
      of = ring.get();
      oldest = &route;
    }
  }
  if (oldest == nullptr) return false;
  Revoke(*of, *oldest,
         {Code::kUnavailable, reasons::kQuota,
          "the route was unused for a while, and was closed for a new route of its user"});
  return true;
}

void Rings::File(const TransferId& id) {
  const std::string& text = id.str();
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return;
  const auto ring = by_prefix_.find(text.substr(0, dash));
  if (ring == by_prefix_.end()) return;
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + dash + 1, end, number, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return;
  TakeLongEnds(*ring->second);
  needs_.receipts.File(*ring->second, number);
}

void Rings::FileAll() {
  std::vector<ClientRing*> rings;
  for (const auto& [prefix, ring] : by_prefix_) {
    TakeLongEnds(*ring);
    rings.push_back(ring.get());
  }
  needs_.receipts.FileAll(rings);
}

void Rings::AddToTally() {
  for (const auto& [prefix, ring] : by_prefix_) AddRing(*ring, needs_.tally, false);
}

void Rings::TakeLongEnds(ClientRing& ring) {
  ring.journal->long_ends().TakeAll(
      [&](const ring::Entry& entry) { needs_.receipts.Tell(ring, entry); });
}

void Rings::HearOfLongEnds(const std::weak_ptr<ClientRing>& known) {
  const RingRef ring = known.lock();
  if (ring == nullptr) return;
  const auto tell = [&](const ring::Entry& entry) { needs_.receipts.Tell(*ring, entry); };
  if (ring->journal->long_ends().TakeSome(kLongEndsAtATime, tell)) {
    needs_.context.loop.Post([this, known] { HearOfLongEnds(known); });
  }
}

void Rings::Forget(ClientRing& ring, size_t most) {
  if (ring.routes.size() <= most || ring.gone == 0) return;
  TakeLongEnds(ring);
  needs_.receipts.FileAll({&ring});
  for (auto it = ring.routes.begin(); it != ring.routes.end() && ring.routes.size() > most;) {
    if (!it->second.settled) {
      ++it;
      continue;
    }
    AddRoute(it->second, needs_.tally);
    it = ring.routes.erase(it);
    --ring.gone;
  }
  ring.charge.SetBytes(ring.gone * kChargedOfARoute);
}

void Rings::Revoke(ClientRing& ring, RouteRecord& route, const Status& why) {
  if (!std::exchange(route.open, false)) return;
  route.charge.GiveBack();
  ring.charge.SetBytes(++ring.gone * kChargedOfARoute);
  route.route->Revoke(why);
  // Once nothing is under way they are gone, and with them what they hold.
  const std::weak_ptr<SmallCopyRoute> way = route.route->way;
  const std::weak_ptr<SmallCopyRoute> long_way = route.route->long_way;
  const auto cancel = [way, long_way] {
    for (const auto& one : {way.lock(), long_way.lock()}) {
      if (one != nullptr) one->Cancel();
    }
  };
  if (route.push.empty()) {
    cancel();
  } else {
    // Only when the other node can read nothing more is it known what will not have been read.
    route.cancel = cancel;
    Task closed = cancel;
    if (route.ends_with) {
      closed = [this, peer = route.peer, opening = *route.ends_with, cancel] {
        AskToClose(peer, opening, cancel);
      };
    }
    needs_.openings.CloseFor(route.peer, route.push, std::move(closed));
  }
  std::vector<BufferId> buffers = route.buffers;
  for (const BufferId buffer : buffers) ++releasing_[buffer].routes;
  auto gone = [this, ring = by_prefix_.at(ring.prefix), place = route.place,
               serial = route.route->serial, buffers = std::move(buffers)] {
    ring->used[place] = false;
    if (const auto known = ring->routes.find(serial); known != ring->routes.end()) {
      AddRoute(known->second, needs_.tally);
      known->second.settled = true;
    }
    if (!ring->waiting.empty()) {
      Task first = std::move(ring->waiting.front());
      ring->waiting.erase(ring->waiting.begin());
      first();
    }
    for (const BufferId buffer : buffers) {
      const auto waiting = releasing_.find(buffer);
      if (waiting == releasing_.end()) continue;  // the engine has ended meanwhile: see Clear
      if (--waiting->second.routes > 0) continue;
      auto node = releasing_.extract(waiting);
      for (Task& then : node.mapped().waiting) then();
    }
  };
  needs_.thread.Remove(ring.id, route.place,
                       [&loop = needs_.context.loop, gone = std::move(gone)]() mutable {
                         loop.Post(std::move(gone));
                       });
}

void Rings::AskToClose(const std::string& node, uint64_t opening, Task closed) {
  const Result<PeerApi*> peer = needs_.peers.Find(node);
  if (!peer.ok() || !needs_.peers.IsConnected(node)) return closed();
  (*peer)->CloseOpening(
      needs_.context.node(), opening,
      [this, node, opening, closed = std::move(closed)](const Status& answer) mutable {
        if (answer.ok()) return closed();
        // It may still write, so it is asked again, until it says otherwise or is gone.
        needs_.context.loop.RunAfter(kAskAgain,
                                     [this, node, opening, closed = std::move(closed)]() mutable {
                                       AskToClose(node, opening, std::move(closed));
                                     });
      });
}

template <typename Rests>
void Rings::RevokeAll(const Rests& rests, const Status& why) {
  for (auto& [session, ring] : rings_) {
    for (auto& [serial, route] : ring->routes) {
      if (route.open && rests(route)) Revoke(*ring, route, why);
    }
  }
}

void Rings::DropBuffer(BufferId buffer, const Status& why) {
  RevokeAll(
      [&](const RouteRecord& route) {
        const std::vector<BufferId>& buffers = route.buffers;
        return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
      },
      why);
}

void Rings::DropGrant(const GrantId& grant, const Status& why) {
  RevokeAll(
      [&](const RouteRecord& route) {
        const auto& grants = route.grants;
        return std::find(grants.begin(), grants.end(), grant) != grants.end();
      },
      why);
}

void Rings::DropPeer(const std::string& node, const Status& why) {
  RevokeAll([&](const RouteRecord& route) { return route.peer == node; }, why);
  // It closes nothing any more.
  for (const auto& [prefix, ring] : by_prefix_) {
    for (const auto& [serial, route] : ring->routes) {
      if (route.peer == node && route.ends_with && route.cancel) route.cancel();
    }
  }
}

void Rings::DropLimited() {
  const Context& context = needs_.context;
  const auto limited = [&](const Owner& owner, const std::string& initiator) {
    return !MayGoByRing(context, owner, initiator).ok();
  };
  const Status why(Code::kUnavailable, reasons::kNotApplicable,
                   "a rate limit or a low priority of [qos] holds now, which rings do not keep");
  for (auto& [session, ring] : rings_) {
    if (!limited(ring->owner, context.node())) continue;
    for (auto& [serial, route] : ring->routes) {
      if (route.open && context.IsSelf(route.given.destination.node)) Revoke(*ring, route, why);
    }
  }
  needs_.openings.DropPushes(limited, why);
}

void Rings::DropConnection(uint64_t number, const Status& why) {
  RevokeAll([&](const RouteRecord& route) { return route.connection == number; }, why);
}

void Rings::DropReading(const Connection& connection, const Status& why) {
  RevokeAll([&](const RouteRecord& route) { return route.reads_on == &connection; }, why);
}

void Rings::Fail(const std::string& prefix, uint64_t serial, const Status& why) {
  const auto ring = by_prefix_.find(prefix);
  if (ring == by_prefix_.end()) return;
  const auto route = ring->second->routes.find(serial);
  if (route != ring->second->routes.end()) Revoke(*ring->second, route->second, why);
}

void Rings::WhenReleased(BufferId buffer, Task then) {
  const auto waiting = releasing_.find(buffer);
  if (waiting == releasing_.end()) return then();
  waiting->second.waiting.push_back(std::move(then));
}

void Rings::EndSession(const SessionId& session) {
  const auto found = rings_.find(session);
  if (found == rings_.end()) return;
  const RingRef ring = found->second;
  const Status why(Code::kAborted, reasons::kOwnerDied, "the client has gone");
  for (auto& [serial, route] : ring->routes) Revoke(*ring, route, why);
  rings_.erase(found);
  needs_.thread.End(ring->id, [this, ring, &loop = needs_.context.loop] {
    loop.Post([this, ring] { Ended(ring); });
  });
}

void Rings::Ended(const RingRef& ring) {
  TakeLongEnds(*ring);
  RingReceipts::LogLeftOut(*ring);
  needs_.receipts.FileAll({ring.get()});
  AddRing(*ring, needs_.tally, true);
  by_prefix_.erase(ring->prefix);
  ring->charge.GiveBack();
  log::Debug("ring ended", {{"owner", ring->owner.ToString()},
                            {"succeeded", std::to_string(ring->journal->succeeded())},
                            {"failed", std::to_string(ring->journal->failed())},
                            {"bytes", std::to_string(ring->journal->bytes())}});
}

void Rings::Clear() {
  for (const auto& [prefix, ring] : by_prefix_) {
    for (const auto& [serial, route] : ring->routes) {
      if (route.cancel) route.cancel();
      if (!route.open) continue;
      route.route->way->Cancel();
      if (route.route->long_way != nullptr) route.route->long_way->Cancel();
    }
    ring->waiting.clear();  // what waits holds the ring
  }
  needs_.thread.Stop();
  rings_.clear();
  by_prefix_.clear();
  releasing_.clear();
}

}  // namespace onecopy::engine
