#include "daemon/engine/transfers/sources.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/move.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// Of a part's record and run.
constexpr uint64_t kPartBytes = uint64_t{8} << 10;

}  // namespace

void Sources::Prepare(const std::string& caller, PrepareRequest request,
                      Reply<PrepareReply> reply) {
  uint64_t recorded = 0;  // the ticket's record, once it was taken
  auto refuse = [&](const Status& why) {
    needs_.tickets.Done(recorded);
    reply(why);
  };
  const Context& context = needs_.runs.context;
  if (context.stopping) {
    if (Returns(caller, request)) return refuse(ReturnsLater(context.node()));
    return refuse({Code::kUnavailable, reasons::kDraining,
                   "node " + context.node() + " is shutting down and starts no more transfers"});
  }
  if (request.staged && request.loan != 0) {
    return refuse({Code::kInvalidArgument, reasons::kBadArgument,
                   "a source that is read in place cannot be staged as well"});
  }
  if (request.staged && request.chunk_bytes < kMinChunkBytes) {
    return refuse({Code::kInvalidArgument, reasons::kBadSize,
                   "a staged transfer cannot have chunks below 4 KiB"});
  }
  // Before the ticket, which the reader needs once more where its connection is gone.
  Result<Connections::Serving> connection = Connections::Serving();
  if (request.loan == 0) {
    connection = needs_.connections.FindAccepted(caller, request.connection);
    if (!connection.ok()) return refuse(connection.status());
  }
  const auto earlier = runs_.find(request.id);
  if (earlier != runs_.end() && earlier->second->MayBeginAgain(caller, request.ticket)) {
    return BeginAgain(caller, std::move(request), std::move(reply));
  }
  Result<Ticket> ticket = needs_.tickets.TakeForRun(caller, request.ticket, request.id);
  if (!ticket.ok()) return refuse(ticket.status());
  recorded = ticket->record;
  if (ticket->gaps && !request.staged && !request.places) {
    return refuse({Code::kFailedPrecondition, reasons::kPeerIncompatible,
                   "the onecopyd of node " + caller + " is too old to read an array with gaps",
                   "install the same version on both nodes"});
  }
  if (request.arrived_bytes >= std::max<uint64_t>(ticket->payload(), 1)) {
    return refuse({Code::kInvalidArgument, reasons::kBadSize,
                   "node " + caller + " says that " + std::to_string(request.arrived_bytes) +
                       " bytes have arrived of " + std::to_string(ticket->payload())});
  }
  if (request.until_bytes != 0 &&
      (request.until_bytes <= request.arrived_bytes || request.until_bytes > ticket->payload())) {
    return refuse({Code::kInvalidArgument, reasons::kBadSize,
                   "node " + caller + " asks for what follows byte " +
                       std::to_string(request.arrived_bytes) + " until " +
                       std::to_string(request.until_bytes) + ", of " +
                       std::to_string(ticket->payload())});
  }
  // The whole is charged, and its parts are not.
  if (ticket->part() && (!request.series || request.series->id != ticket->whole)) {
    return refuse({Code::kInvalidArgument, reasons::kBadArgument,
                   "the ticket belongs to a part of another transfer"});
  }
  if (request.loan != 0) {
    if (Status lent = needs_.runs.exporter.Check(caller, ticket->memory, request.loan);
        !lent.ok()) {
      needs_.tickets.Restore(request.ticket, std::move(*ticket));
      return reply(lent);
    }
  }

  // Where this node ordered the transfer it has a record of it already.
  TransferRecord* record = needs_.runs.transfers.Find(request.id);
  if (record == nullptr) {
    TransferInfo info = request.transfer;
    info.id = request.id;
    info.role = TransferRole::kSource;
    info.state = TransferState::kPending;
    const Buffer& buffer = *needs_.runs.buffers.FindById(ticket->buffer);
    info.source = {needs_.runs.context.node(), buffer.name, ticket->range.offset,
                   ticket->range.bytes};
    if (buffer.file) info.source.file = std::exchange(info.source.buffer, {});
    info.destination.node = caller;
    info.bytes = ticket->payload();
    info.owner = ticket->owner.ToString();
    info.create_time = std::chrono::system_clock::now();
    info.error = OkStatus();
    info.part_of = {};
    if (request.series) {
      const Status joined =
          needs_.series.Join(caller, *request.series, ticket->owner, TransferRole::kSource);
      if (!joined.ok()) return refuse(joined);
      info.part_of = request.series->id;
    }
    // One transfer is charged once, however many buffers it has: of a part, what its ticket takes.
    Result<Ledger::Charge> charge =
        ticket->part() ? Ledger::Charge()
                       : needs_.runs.transfers.Take(ticket->owner, ticket->initiator, false, 0);
    if (!charge.ok()) return refuse(charge.status());
    if (ticket->part()) ticket->charge->SetBytes(ticket->charge->bytes() + kPartBytes);
    Result<TransferRecord*> added = needs_.runs.transfers.Add(
        std::move(info), ticket->owner, ticket->initiator, std::move(*charge));
    if (!added.ok()) return refuse(added.status());
    record = *added;
  } else if (runs_.contains(request.id) || IsFinal(record->info.state)) {
    return refuse({Code::kAlreadyExists, reasons::kNameTaken, "the transfer was already prepared"});
  } else if (!IsOrderOf(*record, *ticket, caller)) {
    return refuse({Code::kAlreadyExists, reasons::kNameTaken,
                   "there is another transfer of that id, which is not to be read by node " +
                       caller + " with this ticket"});
  }
  if (ticket->grant &&
      std::count(record->grants.begin(), record->grants.end(), *ticket->grant) == 0) {
    record->grants.push_back(*ticket->grant);
  }
  record->info.plan = request.transfer.plan;
  record->info.state = TransferState::kRunning;
  needs_.remote_transfers.Await(*record, caller, request.deadline);
  needs_.remote_transfers.AskWhenSilent(request.id);

  auto run = std::make_shared<SourceRun>(needs_.runs, request.id, caller, *ticket,
                                         needs_.runs.buffers.FindById(ticket->buffer)->region,
                                         *connection);
  runs_[request.id] = run;
  needs_.runs.buffers.Hold(ticket->buffer, request.id);
  needs_.runs.transfers.BeginRun(*record, run);
  needs_.runs.transfers.Changed(*record);
  reply(run->Prepare(request));
}

// Any node may reserve with any id, and so with that of a transfer that it knows of.
bool Sources::IsOrderOf(const TransferRecord& record, const Ticket& ticket,
                        const std::string& caller) const {
  const Context& context = needs_.runs.context;
  return record.run == nullptr && record.initiator == ticket.initiator &&
         context.IsSelf(record.info.source.node) && record.info.destination.node == caller;
}

bool Sources::Returns(const std::string& caller, const PrepareRequest& request) const {
  const auto run = runs_.find(request.id);
  const bool runs = run != runs_.end() && run->second->destination() == caller;
  const Result<Ticket> ticket =
      runs ? run->second->ticket() : needs_.tickets.Look(caller, request.ticket, request.id);
  if (!ticket.ok() || ticket->record == 0 || request.loan != 0) return false;
  const Buffer* const buffer = needs_.runs.buffers.FindById(ticket->buffer);
  return buffer != nullptr && buffer->survives();
}

void Sources::BeginAgain(const std::string& caller, PrepareRequest request,
                         Reply<PrepareReply> reply) {
  const std::shared_ptr<SourceRun> run = runs_.at(request.id);
  run->WhenEnded(
      [this, caller, request = std::move(request), reply = std::move(reply), run]() mutable {
        const auto found = runs_.find(request.id);
        if (found != runs_.end() && found->second == run) {
          runs_.erase(found);
          needs_.tickets.Restore(request.ticket, run->ticket());
        }
        Prepare(caller, std::move(request), std::move(reply));
      });
  run->Cancel({Code::kCancelled, reasons::kCancelled, "the destination starts again"});
}

void Sources::Finish(const std::string& caller, const FinishRequest& request,
                     Reply<FinishReply> reply) {
  const auto found = runs_.find(request.id);
  if (found == runs_.end() && needs_.tickets.Withdraw(caller, request.id)) {
    return reply(FinishReply{});
  }
  if (found == runs_.end() || found->second->destination() != caller) {
    return reply(Status(Code::kNotFound, reasons::kTransferNotFound,
                        "node " + needs_.runs.context.node() + " is not the source of transfer " +
                            request.id.str() + " to node " + caller));
  }
  const std::shared_ptr<SourceRun> run = found->second;
  if (request.channel != 0 && run->channel() != request.channel) {
    return reply(Status(Code::kNotFound, reasons::kTransferNotFound,
                        "node " + caller + " has begun transfer " + request.id.str() +
                            " again since then; the run that it ends is over"));
  }
  run->Finish(request, std::move(reply));
}

void Sources::DropConnection(uint64_t number, const Status& why) {
  const auto runs = runs_;
  for (const auto& [id, run] : runs) {
    if (run->connection_number() == number) run->LoseConnection(why);
  }
}

void Sources::LoseBuffer(BufferId buffer, const Status& why) {
  for (const auto& [id, run] : runs_) {
    if (run->ticket().buffer == buffer) run->NoteLost(why);
  }
}

void Sources::Forget(const TransferId& id) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  needs_.tickets.Done(found->second->ticket().record);
  const std::shared_ptr<SourceRun> run = found->second;
  runs_.erase(found);
  // Nothing, if it has closed already.
  run->Cancel({Code::kCancelled, reasons::kCancelled, "the transfer has ended"});
}

}  // namespace onecopy::engine
