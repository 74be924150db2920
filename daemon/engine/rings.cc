#include "daemon/engine/rings.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/engine/catalog.h"
#include "daemon/engine/context.h"
#include "daemon/engine/move.h"
#include "daemon/engine/names.h"
#include "daemon/engine/probes.h"
#include "daemon/engine/tickets.h"
#include "daemon/log/log.h"
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

Status NotByRing(std::string why) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable, std::move(why)};
}

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
  if (!parts_.context.IsSelf(end.node)) return NotByRing("rings move bytes inside a node");
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

Result<Rings::Description> Rings::Check(const Principal& who, const Endpoint& source,
                                        const Endpoint& destination) {
  Context& context = parts_.context;
  if (context.draining) {
    return Status(Code::kUnavailable, reasons::kDraining,
                  "node " + context.node() + " is shutting down and takes no new transfers");
  }
  ONECOPY_ASSIGN_OR_RETURN(End from, CheckEnd(who, source, Access::kRead));
  ONECOPY_ASSIGN_OR_RETURN(End to, CheckEnd(who, destination, Access::kWrite));
  ONECOPY_ASSIGN_OR_RETURN(plan::Plan plan,
                           MakePlan(from.buffer->region->place(), to.buffer->region->place()));
  if (plan.path.source_staged || plan.path.destination_staged || !plan.path.link.empty()) {
    return NotByRing("rings do not carry " + plan.path.name);
  }
  Description description;
  description.source_buffer = from.buffer->id;
  description.destination_buffer = to.buffer->id;
  for (const End* end : {&from, &to}) {
    if (end->grant) description.grants.push_back(*end->grant);
  }
  description.route = std::make_shared<ring::Route>();
  description.route->from = from.allowed;
  description.route->to = to.allowed;
  description.route->one_buffer = from.buffer == to.buffer;
  description.given.source = {context.node(), from.buffer->name, from.allowed.offset,
                              from.allowed.bytes};
  description.given.destination = {context.node(), to.buffer->name, to.allowed.offset,
                                   to.allowed.bytes};
  description.given.plan = std::move(plan);
  return description;
}

void Rings::OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                      Reply<RingRoute> reply) {
  Result<Principal> who = parts_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  const auto found = rings_.find(session);
  if (found == rings_.end()) return reply(NotByRing("this session has no ring"));
  Result<Description> checked = Check(*who, source, destination);
  if (!checked.ok()) return reply(checked.status());
  const RegionRef from = parts_.buffers.FindById(checked->source_buffer)->region;
  const RegionRef to = parts_.buffers.FindById(checked->destination_buffer)->region;
  Memory* memory = parts_.context.CopierFor(from->place(), to->place());
  if (memory == nullptr) return reply(NotByRing("nothing here copies between the two"));
  const std::string worker = WorkerOf(from->place().device.empty() ? to->place() : from->place());
  parts_.context.workers.Run<std::unique_ptr<ShortRoute>>(
      worker, [memory, from, to] { return memory->PrepareShort(from, to); },
      [this, ring = found->second, worker, description = std::move(*checked),
       reply = std::move(reply)](Result<std::unique_ptr<ShortRoute>> way) mutable {
        if (!way.ok()) return reply(way.status());
        Install(ring, std::move(description), std::move(*way), worker, std::move(reply));
      });
}

bool Rings::StillStands(const Description& description) const {
  for (const BufferId id : {description.source_buffer, description.destination_buffer}) {
    const Buffer* buffer = parts_.buffers.FindById(id);
    if (buffer == nullptr || !buffer->removing.ok()) return false;
  }
  return std::all_of(description.grants.begin(), description.grants.end(),
                     [&](const GrantId& id) { return parts_.grants.Find(id) != nullptr; });
}

void Rings::Install(const RingRef& ring, Description description, std::unique_ptr<ShortRoute> way,
                    const std::string& worker, Reply<RingRoute> reply) {
  description.steps = way->steps();
  description.route->way = parts_.context.workers.ShareAny(worker, std::move(way));
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
  const uint64_t serial = next_route_++;
  description.place = static_cast<uint32_t>(place - ring->used.begin());
  description.route->serial = serial;
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
  std::vector<BufferId> buffers = {description.source_buffer};
  if (!description.route->one_buffer) buffers.push_back(description.destination_buffer);
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
        return description.source_buffer == buffer || description.destination_buffer == buffer;
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
  thread_.Stop();
  rings_.clear();
  by_prefix_.clear();
  letting_go_.clear();
}

}  // namespace onecopy::engine
