#include "daemon/engine/rings.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/engine/catalog.h"
#include "daemon/engine/context.h"
#include "daemon/engine/move.h"
#include "daemon/engine/names.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/probes.h"
#include "daemon/engine/remote_route.h"
#include "daemon/engine/tickets.h"
#include "daemon/log/log.h"
#include "daemon/pipeline/short_gets.h"
#include "daemon/plan/planner.h"
#include "transport/core/reasons.h"
#include "transport/os/error.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMostRings = 1024;
constexpr size_t kMostRingsPerUid = 256;
constexpr size_t kMostDescriptions = 256;  // of one ring, with those of routes that are gone
constexpr size_t kPrefixBytes = 8;

Status Full(const std::string& what, size_t most) {
  return {Code::kResourceExhausted, reasons::kQuota,
          what + " " + std::to_string(most) + " rings already, and no more at a time"};
}

}  // namespace

Rings::Rings(Parts& parts, std::chrono::nanoseconds spin)
    : parts_(parts), spin_(spin), thread_(spin) {}

void Rings::OpenRing(const SessionId& session, Reply<RingGiven> reply) {
  Result<Principal> who = parts_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  if (rings_.contains(session)) {
    return reply(Status(Code::kAlreadyExists, reasons::kNameTaken, "this session has a ring"));
  }
  if (by_prefix_.size() >= kMostRings) return reply(Full("this node serves", kMostRings));
  if (per_uid_[who->uid] >= kMostRingsPerUid) {
    return reply(Full("uid " + std::to_string(who->uid) + " has", kMostRingsPerUid));
  }
  Result<ring::DaemonEnd> end = ring::DaemonEnd::Make();
  if (!end.ok()) return reply(end.status());
  int pair[2];
  // Two open files: what the client sets on its own does nothing to the daemon's.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return reply(os::ErrnoStatus(errno, "making the socket of a ring"));
  }
  os::UniqueFd here(pair[0]);
  RingGiven given{os::UniqueFd::DuplicateOf(end->memory()), os::UniqueFd(pair[1]),
                  os::RandomHex(kPrefixBytes), spin_, Owner{who->uid, who->node}.ToString()};
  if (!given.memory) return reply(os::ErrnoStatus(errno, "duplicating the memory of a ring"));

  auto ring = std::make_shared<Ring>();
  ring->id = next_ring_++;
  ring->session = session;
  ring->owner = {who->uid, who->node};
  ring->prefix = given.prefix;
  ring->journal = std::make_shared<ring::Journal>();
  thread_.Add(ring->id, std::move(*end), std::move(here), ring->journal,
              [&loop = parts_.context.loop, owner = ring->owner.ToString()] {
                loop.Post([owner] {
                  log::Warning("a client has written nonsense into its ring, which is ended",
                               {{"owner", owner}});
                });
              });
  ++per_uid_[who->uid];
  rings_[session] = ring;
  by_prefix_[ring->prefix] = ring;
  reply(std::move(given));
}

Result<Rings::End> Rings::CheckEnd(const Principal& who, const Endpoint& end, Access access) {
  ONECOPY_ASSIGN_OR_RETURN(Buffer* const buffer, parts_.buffers.Find(end.buffer));
  const ByteRange whole{0, buffer->bytes};
  auto all = parts_.grants.Check(who, *buffer, whole, access);
  if (all.ok()) return End{buffer, whole, std::move(*all)};
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange asked,
                           ResolveRange(end, buffer->bytes, "buffer \"" + buffer->name + "\""));
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant,
                           parts_.grants.Check(who, *buffer, asked, access));
  const Grants::Grant* rests_on = grant ? parts_.grants.Find(*grant) : nullptr;
  return End{buffer, rests_on == nullptr ? asked : rests_on->range, std::move(grant)};
}

Result<plan::Plan> Rings::MakePlan(const Place& source, const Place& destination) const {
  const NodeCapability& here = parts_.catalog.capabilities();
  plan::Request request;
  request.source = {&here, source.kind, source.device};
  request.destination = {&here, destination.kind, destination.device};
  request.bytes = ring::kMostBytes;
  request.estimates = parts_.probes.EstimatesFor(here.node);
  return plan::MakePlan(request);
}

Rings::Description Rings::Describe() {
  Description description;
  description.route = std::make_shared<ring::Route>();
  description.route->serial = next_route_++;
  return description;
}

void Rings::OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                      Reply<RingRoute> reply) {
  Result<Principal> who = parts_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  const auto found = rings_.find(session);
  if (found == rings_.end()) return reply(NotByRing("this session has no ring"));
  const Context& context = parts_.context;
  if (context.draining) {
    return reply(Status(Code::kUnavailable, reasons::kDraining,
                        "node " + context.node() + " is shutting down and takes no new transfers"));
  }
  if (!context.IsSelf(destination.node)) {
    return reply(NotByRing("rings move bytes inside a node, and to it"));
  }
  const RingRef ring = found->second;
  if (context.IsSelf(source.node)) {
    return OpenInside(ring, *who, source, destination, std::move(reply));
  }
  OpenFrom(ring, *who, std::move(source), destination, std::move(reply));
}

void Rings::OpenInside(const RingRef& ring, const Principal& who, const Endpoint& source,
                       const Endpoint& destination, Reply<RingRoute> reply) {
  const Result<End> from = CheckEnd(who, source, Access::kRead);
  if (!from.ok()) return reply(from.status());
  const Result<End> to = CheckEnd(who, destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  const RegionRef from_region = from->buffer->region;
  const RegionRef to_region = to->buffer->region;
  Result<plan::Plan> plan = MakePlan(from_region->place(), to_region->place());
  if (!plan.ok()) return reply(plan.status());
  if (plan->path.source_staged || plan->path.destination_staged || !plan->path.link.empty()) {
    return reply(NotByRing("rings do not carry " + plan->path.name));
  }
  Memory* memory = parts_.context.CopierFor(from_region->place(), to_region->place());
  if (memory == nullptr) return reply(NotByRing("nothing here copies between the two"));

  Description description = Describe();
  ring::Route& route = *description.route;
  route.from = from->allowed;
  route.to = to->allowed;
  route.one_buffer = from->buffer == to->buffer;
  description.buffers = {from->buffer->id};
  if (!route.one_buffer) description.buffers.push_back(to->buffer->id);
  for (const End* end : {&*from, &*to}) {
    if (end->grant) description.grants.push_back(*end->grant);
  }
  const std::string& node = parts_.context.node();
  description.given.source = {node, from->buffer->name, route.from.offset, route.from.bytes};
  description.given.destination = {node, to->buffer->name, route.to.offset, route.to.bytes};
  description.given.plan = std::move(*plan);
  const std::string worker =
      WorkerOf(from_region->place().device.empty() ? to_region->place() : from_region->place());
  parts_.context.workers.Run<std::unique_ptr<ShortRoute>>(
      worker,
      [memory, from_region, to_region] { return memory->PrepareShort(from_region, to_region); },
      [this, ring, worker, description = std::move(description),
       reply = std::move(reply)](Result<std::unique_ptr<ShortRoute>> way) mutable {
        if (!way.ok()) return reply(way.status());
        Install(ring, std::move(description),
                parts_.context.workers.ShareAny(worker, std::move(*way)), std::move(reply));
      });
}

void Rings::OpenFrom(const RingRef& ring, const Principal& who, Endpoint source,
                     const Endpoint& destination, Reply<RingRoute> reply) {
  const Result<End> to = CheckEnd(who, destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  Description description = Describe();
  description.route->to = to->allowed;
  description.buffers = {to->buffer->id};
  description.peer = source.node;
  if (to->grant) description.grants.push_back(*to->grant);
  description.given.destination = {parts_.context.node(), to->buffer->name, to->allowed.offset,
                                   to->allowed.bytes};
  RemoteRouteOrder order{who, std::move(source), to->buffer->region,
                         to->buffer->registered ? to->buffer->name : std::string()};
  const RegionRef into = order.into;
  MakeRemoteRoute(
      parts_, std::move(order),
      [this, ring, into, description = std::move(description),
       reply = std::move(reply)](Result<RemoteRoute> made) mutable {
        if (!made.ok()) return reply(made.status());
        ring::Route& route = *description.route;
        route.from = {*made->source.offset, *made->source.bytes};
        description.given.source = made->source;
        description.given.plan = std::move(made->plan);
        description.access = made->range->connection()->Access(made->range->key(), *into);
        os::EventLoop& loop = parts_.context.loop;
        auto failed = [this, &loop, prefix = ring->prefix, serial = route.serial](Status why) {
          loop.Post([this, prefix, serial, why = std::move(why)] { Fail(prefix, serial, why); });
        };
        auto way = std::make_unique<pipeline::ShortGets>(
            pipeline::ShortGets::Source{made->range->connection(), os::RandomNumber(),
                                        made->range->key(), route.from.offset, made->range},
            into, std::move(failed));
        // The range is given back on this thread, as is what the way has of the buffer.
        std::shared_ptr<ShortRoute> shared(way.release(), [&loop](ShortRoute* last) {
          loop.Post([last = std::unique_ptr<ShortRoute>(last)] {});
        });
        made->range.reset();
        Install(ring, std::move(description), std::move(shared), std::move(reply));
      });
}

bool Rings::StillStands(const Description& description) const {
  if (!description.peer.empty() && !parts_.peers.IsConnected(description.peer)) return false;
  for (const BufferId id : description.buffers) {
    const Buffer* buffer = parts_.buffers.FindById(id);
    if (buffer == nullptr || !buffer->removing.ok()) return false;
  }
  return std::all_of(description.grants.begin(), description.grants.end(),
                     [&](const GrantId& id) { return parts_.grants.Find(id) != nullptr; });
}

void Rings::Install(const RingRef& ring, Description description, std::shared_ptr<ShortRoute> way,
                    Reply<RingRoute> reply) {
  description.steps = way->steps();
  description.route->way = std::move(way);
  const auto current = rings_.find(ring->session);
  if (current == rings_.end() || current->second != ring || !StillStands(description)) {
    return reply(Status(Code::kAborted, reasons::kCancelled,
                        "what the route was to rest on has ended meanwhile"));
  }
  const auto place = std::find(ring->used.begin(), ring->used.end(), false);
  if (place == ring->used.end()) {
    return reply(Status(Code::kResourceExhausted, reasons::kQuota,
                        "a ring has " + std::to_string(ring::kRoutes) + " routes at most"));
  }
  *place = true;
  const uint64_t serial = description.route->serial;
  description.place = static_cast<uint32_t>(place - ring->used.begin());
  description.given.word = ring::RouteWord(serial, description.place);
  RingRoute given = description.given;
  thread_.Install(
      ring->id, description.place, description.route,
      [&loop = parts_.context.loop, given = std::move(given), reply = std::move(reply)]() mutable {
        loop.Post([given = std::move(given), reply = std::move(reply)]() mutable {
          reply(std::move(given));
        });
      });
  ring->routes.emplace(serial, std::move(description));
  Forget(*ring);
}

// The oldest routes that are gone, and with them the receipts of what went by them.
void Rings::Forget(Ring& ring) {
  for (auto it = ring.routes.begin();
       it != ring.routes.end() && ring.routes.size() > kMostDescriptions;) {
    it = it->second.open ? std::next(it) : ring.routes.erase(it);
  }
}

void Rings::Withdraw(Ring& ring, Description& description, const Status& why) {
  if (!std::exchange(description.open, false)) return;
  description.route->Withdraw(why);
  // It is there until the ring's thread has been told, below.
  description.route->way->Cancel();
  std::vector<BufferId> buffers = description.buffers;
  for (const BufferId buffer : buffers) ++letting_go_[buffer].routes;
  auto gone = [this, ring = by_prefix_.at(ring.prefix), place = description.place,
               buffers = std::move(buffers)] {
    ring->used[place] = false;
    for (const BufferId buffer : buffers) {
      const auto waiting = letting_go_.find(buffer);
      if (--waiting->second.routes > 0) continue;
      auto node = letting_go_.extract(waiting);
      for (Task& then : node.mapped().waiting) then();
    }
  };
  thread_.Remove(ring.id, description.place,
                 [&loop = parts_.context.loop, gone = std::move(gone)]() mutable {
                   loop.Post(std::move(gone));
                 });
}

template <typename Rests>
void Rings::WithdrawAll(const Rests& rests, const Status& why) {
  for (auto& [session, ring] : rings_) {
    for (auto& [serial, description] : ring->routes) {
      if (description.open && rests(description)) Withdraw(*ring, description, why);
    }
  }
}

void Rings::DropBuffer(BufferId buffer, const Status& why) {
  WithdrawAll(
      [&](const Description& description) {
        const std::vector<BufferId>& buffers = description.buffers;
        return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
      },
      why);
}

void Rings::DropGrant(const GrantId& grant, const Status& why) {
  WithdrawAll(
      [&](const Description& description) {
        const auto& grants = description.grants;
        return std::find(grants.begin(), grants.end(), grant) != grants.end();
      },
      why);
}

void Rings::DropPeer(const std::string& node, const Status& why) {
  WithdrawAll([&](const Description& description) { return description.peer == node; }, why);
}

void Rings::Fail(const std::string& prefix, uint64_t serial, const Status& why) {
  const auto ring = by_prefix_.find(prefix);
  if (ring == by_prefix_.end()) return;
  const auto route = ring->second->routes.find(serial);
  if (route != ring->second->routes.end()) Withdraw(*ring->second, route->second, why);
}

void Rings::WhenLetGo(BufferId buffer, Task then) {
  const auto waiting = letting_go_.find(buffer);
  if (waiting == letting_go_.end()) return then();
  waiting->second.waiting.push_back(std::move(then));
}

void Rings::EndSession(const SessionId& session) {
  const auto found = rings_.find(session);
  if (found == rings_.end()) return;
  const RingRef ring = found->second;
  const Status why(Code::kAborted, reasons::kOwnerDied, "the client has gone");
  for (auto& [serial, description] : ring->routes) Withdraw(*ring, description, why);
  rings_.erase(found);
  thread_.End(ring->id, [this, ring, &loop = parts_.context.loop] {
    loop.Post([this, ring] { Ended(ring); });
  });
}

void Rings::Ended(const RingRef& ring) {
  std::vector<Unfiled> unfiled;
  Collect(*ring, &unfiled);
  FileEntries(std::move(unfiled));
  by_prefix_.erase(ring->prefix);
  const auto count = per_uid_.find(ring->owner.uid);
  if (--count->second == 0) per_uid_.erase(count);
  log::Debug("ring ended", {{"owner", ring->owner.ToString()},
                            {"succeeded", std::to_string(ring->journal->succeeded())},
                            {"failed", std::to_string(ring->journal->failed())},
                            {"bytes", std::to_string(ring->journal->bytes())}});
}

void Rings::Clear() {
  for (const auto& [prefix, ring] : by_prefix_) {
    for (const auto& [serial, description] : ring->routes) {
      if (description.open) description.route->way->Cancel();
    }
  }
  thread_.Stop();
  rings_.clear();
  by_prefix_.clear();
  letting_go_.clear();
}

}  // namespace onecopy::engine
