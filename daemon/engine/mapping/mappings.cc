#include "daemon/engine/mapping/mappings.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/base/routes.h"
#include "daemon/engine/mapping/map_rights.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// How long a client has to unmap: callers that wait for it have been promised an end.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

Mappings::Mappings(const Needs& needs) : needs_(needs) {}

void Mappings::MapBuffer(const SessionId& session, const std::string& node,
                         const std::string& buffer, Reply<MappingGiven> reply) {
  const Context& context = needs_.context;
  Result<Principal> who = needs_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  if (context.draining) return reply(context.Draining());
  if (!context.IsSelf(node)) {
    return reply(Status(Code::kFailedPrecondition, reasons::kOtherNode,
                        "memory can be mapped only on its own node, and buffer \"" +
                            Printable(buffer) + "\" is " + Printable(node),
                        "transfer it into a buffer of node " + context.node() + ", and map that"));
  }
  const Result<Buffer*> found = needs_.grants.FindKnown(needs_.buffers, *who, buffer);
  if (!found.ok()) return reply(found.status());
  if (Status right = RightToMap(needs_.grants, *who, **found).status(); !right.ok()) {
    return reply(std::move(right));
  }
  Result<Ledger::Charge> charge = context.ledger.Take(Charged::kMappings, *who);
  if (!charge.ok()) return reply(charge.status());
  const RegionRef region = (*found)->region;
  needs_.context.workers.Run<SharedMemory>(
      {WorkerOf(region->place()), OwnerOf(*who)}, [region] { return Share(*region); },
      [this, region, asked = Asked{std::move(*who), (*found)->id, std::move(*charge)},
       reply = std::move(reply)](Result<SharedMemory> shared) mutable {
        reply(Add(std::move(asked), region, std::move(shared)));
      });
}

Result<MappingGiven> Mappings::Add(Asked asked, const RegionRef& region,
                                   Result<SharedMemory> shared) {
  const ClientIdentity* client = needs_.sessions.Identity(asked.who.session);
  if (client == nullptr) {
    return Status(Code::kAborted, reasons::kOwnerDied, "the client has gone");
  }
  if (needs_.context.draining) return needs_.context.Draining();
  Buffer* buffer = needs_.buffers.FindById(asked.buffer);
  if (buffer == nullptr || !buffer->removing.ok()) {
    return Status(Code::kNotFound, reasons::kBufferNotFound,
                  "the buffer was removed while it was being mapped");
  }
  if (!shared.ok()) {
    const Status& why = shared.status();
    return Status(why.code(), why.reason(),
                  "buffer \"" + buffer->name + "\" cannot be mapped: " + why.message(),
                  why.remedy());
  }
  ONECOPY_ASSIGN_OR_RETURN(std::vector<GrantId> grants,
                           RightToMap(needs_.grants, asked.who, *buffer));
  ONECOPY_RETURN_IF_ERROR(CheckMayHave(shared->memory, *buffer, *client,
                                       needs_.sessions.Identity(buffer->session),
                                       needs_.owners.Owns(asked.who, buffer->owner)));
  const uint64_t number = next_++;
  ONECOPY_ASSIGN_OR_RETURN(
      auto lease, handover::Lease::Make(needs_.context.loop, [this, number] { Released(number); }));
  std::string from = needs_.sessions.Describe(asked.who.session);
  buffer->mapped_by[number] = asked.who.ToString() + ", " + from;
  MappingGiven given{needs_.buffers.Describe(*buffer), std::move(shared->memory),
                     std::move(shared->fds), std::move(lease.second)};
  const bool for_ever = given.memory.form == "cuda-ipc" && !buffer->registered;
  entries_.emplace(number, Entry{std::move(asked.who), std::move(from), buffer->id, buffer->name,
                                 std::move(grants), std::move(lease.first), std::move(asked.charge),
                                 region, for_ever});
  return given;
}

void Mappings::Revoke(uint64_t number, const Status& why) {
  Entry& entry = entries_.at(number);
  if (!entry.revoked.ok()) return;
  entry.revoked = why;
  entry.awaited = true;
  entry.timer = needs_.context.loop.RunAfter(kPatience, [this, number] { GiveUp(number); });
  entry.lease.Revoke(why);
}

void Mappings::RevokeThose(const Which& which, const Status& why) {
  for (const auto& [number, entry] : entries_) {
    if (which(entry)) Revoke(number, why);
  }
}

void Mappings::DropBuffer(BufferId buffer, const Status& why) {
  RevokeThose([buffer](const Entry& entry) { return entry.buffer == buffer; }, why);
}

void Mappings::DropGrant(const GrantId& grant, const Status& why) {
  for (auto& [number, entry] : entries_) {
    if (std::find(entry.grants.begin(), entry.grants.end(), grant) == entry.grants.end()) continue;
    const Buffer* buffer = needs_.buffers.FindById(entry.buffer);
    if (entry.revoked.ok() && buffer != nullptr) {
      if (auto others = RightToMap(needs_.grants, entry.who, *buffer); others.ok()) {
        entry.grants = std::move(*others);
        continue;
      }
    }
    Revoke(number, why);
  }
}

void Mappings::EndSession(const SessionId& session) {
  RevokeThose([&session](const Entry& entry) { return entry.who.session == session; },
              {Code::kUnauthenticated, reasons::kNoSession,
               "the session that mapped the buffer has ended"});
}

void Mappings::EndAll(const Status& why) {
  RevokeThose([](const Entry&) { return true; }, why);
}

void Mappings::GiveUp(uint64_t number) {
  Entry& entry = entries_.at(number);
  entry.timer = 0;
  entry.awaited = false;
  if (!entry.for_ever) entry.region.reset();
  log::Warning("a client has not released memory after its access was revoked",
               {{"buffer", entry.buffer_name},
                {"owner", entry.who.ToString()},
                {"client", entry.from},
                {"why", entry.revoked.message()}});
  Look();
}

void Mappings::Released(uint64_t number) {
  auto node = entries_.extract(number);
  if (node.empty()) return;
  Entry& entry = node.mapped();
  needs_.context.loop.CancelTimer(entry.timer);
  if (Buffer* buffer = needs_.buffers.FindById(entry.buffer)) buffer->mapped_by.erase(number);
  if (!entry.revoked.ok() && !entry.awaited) {
    log::Info(
        "a client released memory after its access was revoked",
        {{"buffer", entry.buffer_name}, {"owner", entry.who.ToString()}, {"client", entry.from}});
  }
  Look();
}

void Mappings::WhenReleased(BufferId buffer, Task then) {
  AwaitNone([buffer](const Entry& entry) { return entry.buffer == buffer; }, std::move(then));
}

void Mappings::WhenReleased(const GrantId& grant, Task then) {
  AwaitNone(
      [grant](const Entry& entry) {
        return std::find(entry.grants.begin(), entry.grants.end(), grant) != entry.grants.end();
      },
      std::move(then));
}

void Mappings::AwaitNone(Which which, Task then) {
  waiting_.push_back({std::move(which), std::move(then)});
  Look();
}

void Mappings::Look() {
  const auto any = [this](const Waiting& one) {
    return std::any_of(entries_.begin(), entries_.end(), [&](const auto& each) {
      return each.second.awaited && one.which(each.second);
    });
  };
  const auto over = std::stable_partition(waiting_.begin(), waiting_.end(), any);
  std::vector<Waiting> told(std::make_move_iterator(over), std::make_move_iterator(waiting_.end()));
  waiting_.erase(over, waiting_.end());
  for (Waiting& one : told) one.then();
}

void Mappings::Clear() {
  EndAll(
      {Code::kUnavailable, reasons::kDraining, "node " + needs_.context.node() + " is stopping"});
  for (const auto& [number, entry] : entries_) needs_.context.loop.CancelTimer(entry.timer);
  entries_.clear();
  waiting_.clear();
}

}  // namespace onecopy::engine
