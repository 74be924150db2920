#include "daemon/engine/rings/rings.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/rings/remote_route.h"
#include "daemon/log/log.h"
#include "daemon/pipeline/short_gets.h"
#include "daemon/plan/planner.h"
#include "onecopy/reasons.h"
#include "transport/os/error.h"
#include "transport/os/machine.h"
#include "transport/os/unix_socket.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMostDescriptions = 256;  // of one ring, with those of routes that are gone
constexpr size_t kPrefixBytes = 8;

}  // namespace

Rings::Rings(Parts& parts, std::chrono::nanoseconds spin)
    : parts_(parts),
      spin_(spin),
      quota_(parts.context.node(), "rings", parts.context.options.limits.rings,
             parts.context.options.limits.reserved_percent),
      route_quota_(parts.context.node(), "routes", parts.context.options.limits.routes,
                   parts.context.options.limits.reserved_percent),
      thread_(spin) {}

void Rings::OpenRing(const SessionId& session, Reply<RingGiven> reply) {
  Result<Principal> who = parts_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  if (rings_.contains(session)) {
    return reply(Status(Code::kAlreadyExists, reasons::kNameTaken, "this session has a ring"));
  }
  Result<Quota::Charge> charge = quota_.Take(*who);
  if (!charge.ok()) return reply(charge.status());
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

  auto ring = std::make_shared<Ring>();
  ring->id = next_ring_++;
  ring->session = session;
  ring->owner = OwnerOf(*who);
  ring->administrator = who->administrator;
  ring->charge = std::move(*charge);
  ring->prefix = given.prefix;
  ring->journal = std::make_shared<ring::Journal>();
  thread_.Add(ring->id, std::move(*end), std::move(here), ring->journal,
              [&loop = parts_.context.loop, owner = ring->owner.ToString()] {
                loop.Post([owner] {
                  log::Warning("a client broke the format of its ring, which was closed",
                               {{"owner", owner}});
                });
              });
  rings_[session] = ring;
  by_prefix_[ring->prefix] = ring;
  reply(std::move(given));
}

// The oldest routes that are gone. What went by them is filed while it can be described.
void Rings::Forget(Ring& ring) {
  if (ring.routes.size() <= kMostDescriptions) return;
  std::vector<Unfiled> unfiled;
  Collect(ring, &unfiled);
  FileEntries(std::move(unfiled));
  for (auto it = ring.routes.begin();
       it != ring.routes.end() && ring.routes.size() > kMostDescriptions;) {
    it = it->second.open ? std::next(it) : ring.routes.erase(it);
  }
}

void Rings::Withdraw(Ring& ring, Description& description, const Status& why) {
  if (!std::exchange(description.open, false)) return;
  description.charge.GiveBack();
  description.route->Withdraw(why);
  // It is there until the ring's thread has been told, below.
  if (const auto& way = description.route->way; description.push.empty()) {
    way->Cancel();
  } else {
    // Only when the other node can read nothing more is it known what will not have been read.
    parts_.openings.CloseFor(description.peer, description.push, [way] { way->Cancel(); });
  }
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

void Rings::DropConnection(uint64_t number, const Status& why) {
  WithdrawAll([&](const Description& description) { return description.connection == number; },
              why);
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
  ring->charge.GiveBack();
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
