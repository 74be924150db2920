#include "daemon/engine/registry/slabs.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {

void Slabs::OpenSlab(const SessionId& session, Reply<SlabGiven> reply) {
  Result<Principal> who = sessions_.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  Memory* const memory = context_.FindMemory(kProcessKind);
  if (memory == nullptr) {
    return reply(Status(Code::kFailedPrecondition, reasons::kNotServed,
                        "this onecopyd cannot use ordinary memory of processes"));
  }
  if (const auto known = slabs_.find(session); known != slabs_.end()) {
    // A client that had no room for its descriptors has none, and asks again.
    if (known->second.slab == nullptr || known->second.slab->region().use_count() > 1) {
      return reply(Status(Code::kAlreadyExists, reasons::kNameTaken,
                          "this session already has a slab, which its memory uses"));
    }
    std::exchange(known->second.slab, nullptr)
        ->End({Code::kAborted, reasons::kOwnerDied, "the client has asked for another slab"});
  } else {
    Result<Ledger::Charge> charge = context_.ledger.Take(Charged::kSlabs, *who);
    if (!charge.ok()) return reply(charge.status());
    slabs_[session].charge = std::move(*charge);
  }
  // A region's last reference may go anywhere, and its end may block.
  const WorkQueue queue(kProcessKind, OwnerOf(*who));
  const auto share = [&workers = context_.workers, queue](std::unique_ptr<Region> region) {
    return workers.Share(queue, std::move(region));
  };
  context_.workers.Run<std::shared_ptr<ClientSlab>>(
      queue, [memory, share] { return memory->OpenSlab(share); },
      [this, session, reply = std::move(reply)](Result<std::shared_ptr<ClientSlab>> made) mutable {
        reply(Add(session, std::move(made)));
      });
}

Result<SlabGiven> Slabs::Add(const SessionId& session, Result<std::shared_ptr<ClientSlab>> made) {
  const auto found = slabs_.find(session);
  if (found == slabs_.end()) {
    return Status(Code::kAborted, reasons::kOwnerDied, "the client has gone");
  }
  Result<ClientSlab::Ends> ends =
      made.ok() ? (*made)->OpenEnds() : Result<ClientSlab::Ends>(made.status());
  if (!ends.ok()) {
    slabs_.erase(found);
    return ends.status();
  }
  found->second.slab = std::move(*made);
  return SlabGiven{os::UniqueFd(ends->slab), os::UniqueFd(ends->orders), os::UniqueFd(ends->socket),
                   found->second.slab->region()->bytes()};
}

std::shared_ptr<ClientSlab> Slabs::Find(const SessionId& session) const {
  const auto found = slabs_.find(session);
  return found == slabs_.end() ? nullptr : found->second.slab;
}

void Slabs::EndSession(const SessionId& session) {
  auto node = slabs_.extract(session);
  if (node.empty() || node.mapped().slab == nullptr) return;
  node.mapped().slab->End(
      {Code::kAborted, reasons::kOwnerDied, "the client that owns this memory has gone"});
}

void Slabs::Clear() {
  for (const auto& [session, entry] : std::exchange(slabs_, {})) {
    if (entry.slab == nullptr) continue;
    entry.slab->End(
        {Code::kUnavailable, reasons::kDraining, "node " + context_.node() + " is stopping"});
  }
}

}  // namespace onecopy::engine
