#include "daemon/engine/sharing/memory_exporter.h"

#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/engine/registry/buffers.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// How long an importer has to unmap: callers that wait for it have been promised an end.
constexpr std::chrono::seconds kRecallPatience{2};

Status NotLent(const std::string& caller) {
  return {Code::kFailedPrecondition, reasons::kNotShareable,
          "node " + caller + " has not borrowed that memory, or it was revoked"};
}

}  // namespace

MemoryExporter::MemoryExporter(Context& context, Peers& peers, Buffers& buffers, Tickets& tickets)
    : context_(context),
      peers_(peers),
      buffers_(buffers),
      tickets_(tickets),
      server_(context.loop) {}

void MemoryExporter::Lend(const std::string& caller, const ImportMemoryRequest& request,
                          Reply<MemoryExport> reply) {
  Result<Ticket> ticket = tickets_.Take(caller, request.ticket, request.id);
  if (!ticket.ok()) return reply(ticket.status());
  const BufferId id = ticket->memory;  // lent as a whole, once for all of its views
  tickets_.Restore(request.ticket, std::move(*ticket));
  const NodeCapability* there = peers_.Capabilities(caller);
  if (there == nullptr || there->host.empty() || there->host != os::HostIdentity()) {
    return reply(Status(Code::kFailedPrecondition, reasons::kOtherNode,
                        "node " + caller + " is not a daemon of the host of node " +
                            context_.node() + ": memory is not shared between hosts"));
  }
  // Found a moment ago, with the ticket.
  const RegionRef region = buffers_.FindById(id)->region;
  if (region->place().device.empty()) {
    return reply(
        Status(Code::kFailedPrecondition, reasons::kNotShareable,
               "memory of " + region->step_name() + " cannot be shared with other daemons"));
  }
  context_.workers.Run<SharedMemory>(
      {WorkerOf(region->place()), WholeNode(caller)}, [region] { return Share(*region); },
      [this, caller, id, reply = std::move(reply)](Result<SharedMemory> shared) mutable {
        reply(Hand(caller, id, std::move(shared)));
      });
}

Result<MemoryExport> MemoryExporter::Hand(const std::string& caller, BufferId buffer,
                                          Result<SharedMemory> shared) {
  if (!shared.ok()) {
    // Whatever it was: memory that stays in its process may be read another way.
    const Status& why = shared.status();
    return Status(Code::kFailedPrecondition, why.reason(), why.message(), why.remedy());
  }
  if (buffers_.FindById(buffer) == nullptr) return NotLent(caller);
  if (shared->fds.size() > 1) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotShareable,
        "this GPU memory lies in " + std::to_string(shared->fds.size()) +
            " allocations, and can be shared with another daemon only if it is one allocation",
        "allocate it in one piece (torch: without expandable_segments)");
  }
  os::UniqueFd fd;
  if (!shared->fds.empty()) fd = std::move(shared->fds.front());
  ONECOPY_ASSIGN_OR_RETURN(handover::Address address, server_.Offer(shared->memory, std::move(fd)));
  Lent& lent = lent_[buffer];
  while (lent.id == 0) lent.id = os::RandomNumber();
  lent.importers.insert(caller);
  return MemoryExport{lent.id, std::move(address.name), std::move(address.token)};
}

Status MemoryExporter::Check(const std::string& caller, BufferId buffer, uint64_t loan) const {
  const auto lent = lent_.find(buffer);
  if (lent != lent_.end() && lent->second.id == loan && lent->second.importers.contains(caller)) {
    return OkStatus();
  }
  return NotLent(caller);
}

void MemoryExporter::Recall(const std::string& importer, BufferId buffer, const TransferId& id,
                            Task done) {
  const auto lent = lent_.find(buffer);
  if (lent == lent_.end() || !lent->second.importers.contains(importer)) return done();
  Ask(importer, buffer, id, std::move(done));
}

void MemoryExporter::DropBuffer(BufferId buffer) {
  const auto lent = lent_.find(buffer);
  if (lent == lent_.end()) return;
  for (const std::string& importer : lent->second.importers) {
    ++recalls_[buffer];
    Ask(importer, buffer, {}, [this, buffer] {
      if (--recalls_[buffer] > 0) return;
      recalls_.erase(buffer);
      auto waiting = waiting_.extract(buffer);
      if (waiting.empty()) return;
      for (Task& task : waiting.mapped()) task();
    });
  }
  lent_.erase(buffer);
}

void MemoryExporter::Ask(const std::string& importer, BufferId buffer, const TransferId& id,
                         Task done) {
  struct Once {
    Task done;
    os::EventLoop::TimerId timer = 0;
  };
  auto once = std::make_shared<Once>();
  once->done = std::move(done);
  auto end = [this, once] {
    context_.loop.CancelTimer(once->timer);
    if (once->done) std::exchange(once->done, nullptr)();
  };
  once->timer = context_.loop.RunAfter(kRecallPatience, end);
  const Result<PeerApi*> peer = peers_.Find(importer);
  // One that is out of reach retires what it has borrowed by itself.
  if (!peer.ok()) return end();
  (*peer)->Recall(context_.node(), lent_.at(buffer).id, id, [end](const Status&) { end(); });
}

void MemoryExporter::WhenRecalled(BufferId buffer, Task then) {
  if (!recalls_.contains(buffer)) return then();
  waiting_[buffer].push_back(std::move(then));
}

void MemoryExporter::PeerLost(const std::string& node) {
  for (auto& [buffer, lent] : lent_) lent.importers.erase(node);
}

void MemoryExporter::Clear() {
  server_.Clear();
  lent_.clear();
}

}  // namespace onecopy::engine
