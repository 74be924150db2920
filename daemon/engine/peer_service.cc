#include "daemon/engine/peer_service.h"

#include <utility>

#include "daemon/engine/base/names.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {

void PeerService::Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) {
  needs_.peers.AnswerHello(caller, std::move(request), std::move(reply));
}

void PeerService::Reserve(const std::string& caller, ReserveRequest request,
                          Reply<Reservation> reply) {
  if (!Exports::Names(request.source) || !request.parts.empty()) {
    return reply(needs_.tickets.Reserve(caller, request));
  }
  if (needs_.context.draining && !request.validate_only && !request.begun) {
    return reply(needs_.tickets.Reserve(caller, request));  // which says so
  }
  const Principal who{
      request.uid, caller, request.administrator && needs_.context.IsSelf(caller), {}};
  needs_.exports.Open(
      who, request, [this, caller, request, reply = std::move(reply)](Result<BufferId> id) mutable {
        if (!id.ok()) return reply(id.status());
        request.source.buffer = id->ToString();
        Result<Reservation> reserved = needs_.tickets.Reserve(caller, request);
        const bool asks_here = needs_.context.IsSelf(request.destination_node);
        if (!reserved.ok() || (request.validate_only && !asks_here)) needs_.exports.Drop(*id);
        reply(std::move(reserved));
      });
}

void PeerService::Start(const std::string& caller, StartRequest request,
                        Reply<TransferInfo> reply) {
  const Endpoint& to = request.asked.destination;
  // A buffer beside it is this node's own word: a file that a client of its own has opened.
  const bool opened = needs_.context.IsSelf(caller) && !to.buffer.empty();
  if (!to.file.empty() && !opened) {
    return StartIntoFile(caller, std::move(request), std::move(reply));
  }
  if (!request.parts.empty()) return needs_.bundles.Start(caller, request, std::move(reply));
  if (request.asked.validate_only && needs_.context.IsSelf(request.reservation.source.node)) {
    reply = [this, id = BufferId::Parse(request.reservation.source.buffer),
             reply = std::move(reply)](Result<TransferInfo> planned) mutable {
      needs_.exports.DropPlanned(id);
      reply(std::move(planned));
    };
  }
  needs_.destinations.Start(caller, request, std::move(reply));
}

void PeerService::StartIntoFile(const std::string& caller, StartRequest request,
                                Reply<TransferInfo> reply) {
  if (!Exports::Names(request.asked.destination) || !request.parts.empty() || request.series ||
      !request.asked.more_destinations.empty()) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                        "a destination names a file, " + Printable(request.asked.destination.file) +
                            ", together with a buffer or in a transfer with parts"));
  }
  const bool validate_only = request.asked.validate_only;
  if (needs_.context.draining && !validate_only) {
    return needs_.destinations.Start(caller, request, std::move(reply));  // which says so
  }
  const Principal who{
      request.uid, caller, request.administrator && needs_.context.IsSelf(caller), {}};
  needs_.exports.OpenToWrite(
      who, request,
      [this, caller, request, validate_only,
       reply = std::move(reply)](Result<BufferId> id) mutable {
        if (!id.ok()) return reply(id.status());
        request.asked.destination.buffer = id->ToString();
        needs_.destinations.Start(caller, request,
                                  [this, id = *id, validate_only,
                                   reply = std::move(reply)](Result<TransferInfo> started) mutable {
                                    if (validate_only || !started.ok()) needs_.exports.Drop(id);
                                    reply(std::move(started));
                                  });
      });
}

void PeerService::Connect(const std::string& caller, ConnectRequest request,
                          Reply<ConnectReply> reply) {
  needs_.connections.Accept(caller, request, std::move(reply));
}

void PeerService::Prepare(const std::string& caller, PrepareRequest request,
                          Reply<PrepareReply> reply) {
  needs_.sources.Prepare(caller, std::move(request), std::move(reply));
}

void PeerService::Finish(const std::string& caller, FinishRequest request,
                         Reply<FinishReply> reply) {
  needs_.sources.Finish(caller, request, std::move(reply));
}

void PeerService::OpenProbe(const std::string& caller, OpenProbeRequest request,
                            Reply<OpenProbeReply> reply) {
  if (needs_.context.draining) return reply(needs_.context.Draining());
  needs_.probe_slabs.Open(caller, std::move(request), std::move(reply));
}

void PeerService::CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) {
  needs_.probe_slabs.Close(caller, probe, std::move(reply));
}

void PeerService::OpenRange(const std::string& caller, OpenRangeRequest request,
                            Reply<OpenRangeReply> reply) {
  needs_.rings.OpenRange(caller, request, std::move(reply));
}

void PeerService::OpenPush(const std::string& caller, OpenPushRequest request,
                           Reply<OpenPushReply> reply) {
  needs_.rings.OpenPush(caller, std::move(request), std::move(reply));
}

void PeerService::CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) {
  needs_.openings.CloseOf(caller, opening,
                          [reply = std::move(reply)]() mutable { reply(OkStatus()); });
}

void PeerService::ImportMemory(const std::string& caller, ImportMemoryRequest request,
                               Reply<MemoryExport> reply) {
  needs_.exporter.Lend(caller, request, std::move(reply));
}

void PeerService::Recall(const std::string& caller, uint64_t loan, TransferId id,
                         StatusReply reply) {
  needs_.importer.Recall(caller, loan, id, std::move(reply));
}

void PeerService::Report(const std::string& caller, TransferInfo transfer, StatusReply reply) {
  reply(needs_.remote_transfers.OnReport(caller, transfer));
}

Result<TransferRecord*> PeerService::FindDecided(const std::string& caller, const TransferId& id) {
  TransferRecord* record = needs_.transfers.Find(id);
  const bool here = record != nullptr && (record->series && !record->bundle
                                              ? needs_.context.IsSelf(record->initiator)
                                              : record->info.role == TransferRole::kDestination);
  if (here && (record->initiator == caller || record->info.source.node == caller ||
               record->info.destination.node == caller || needs_.context.IsSelf(caller))) {
    return record;
  }
  return Status(Code::kNotFound, reasons::kTransferNotFound,
                "node " + needs_.context.node() + " is not the destination of transfer " +
                    Printable(id.str()) + " from node " + caller + " has a part");
}

void PeerService::Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) {
  // A source tells the node that ordered the transfer what it knows: the destination may have
  // forgotten.
  const TransferRecord* given = needs_.transfers.Find(id);
  if (given != nullptr && given->info.role == TransferRole::kSource && given->initiator == caller) {
    return reply(given->info);
  }
  Result<TransferRecord*> record = FindDecided(caller, id);
  if (!record.ok()) return reply(record.status());
  reply((*record)->info);
}

void PeerService::Cancel(const std::string& caller, Uid uid, TransferId id,
                         Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindDecided(caller, id);
  if (!record.ok()) return reply(record.status());
  const Status why(Code::kCancelled, reasons::kCancelled,
                   "cancelled by " + Owner{uid, caller}.ToString());
  if ((*record)->run != nullptr) {
    (*record)->run->Cancel(why);
  } else {
    needs_.resumed.CancelLeft(**record, why);
  }
  reply((*record)->info);
}

Result<std::shared_ptr<void>> PeerService::TakeRoom(const std::string& peer, uint64_t bytes,
                                                    uint64_t limit) {
  const Ledger& ledger = needs_.context.ledger;
  const std::string& self = needs_.context.node();
  const uint64_t taken = ledger.bytes(Charged::kPeerBuffers, WholeNode(peer));
  if (taken > limit || bytes > limit - taken) {
    return Status(
        Code::kResourceExhausted, reasons::kQuota,
        "users of node " + peer + " have " + FormatBytes(taken) + " on node " + self +
            " and may have at most " + FormatBytes(limit) + ", not " + FormatBytes(bytes) + " more",
        "remove buffers there, or raise create_bytes under [peers." + peer + "] on node " + self);
  }
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<void> room,
                           ledger.Share(Charged::kPeerBuffers, WholeNode(peer), false, bytes));
  return room;
}

// A client's user of another node, which may have memory here as far as the configuration says.
void PeerService::CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                               Reply<BufferInfo> reply) {
  const std::string& self = needs_.context.node();
  if (needs_.context.draining) return reply(needs_.context.Draining());
  const Owner owner{uid, caller};
  const std::optional<uint64_t> limit = needs_.peers.CreateBytes(caller);
  if (limit ? *limit == 0 : !needs_.owners.Same(owner, {uid, self})) {
    return reply(Status(Code::kPermissionDenied, reasons::kNotOwner,
                        owner.ToString() + " may not create buffers on node " + self,
                        "give both nodes one uid_domain, or set create_bytes under [peers." +
                            caller + "] on node " + self + "; or run onecopy on that node"));
  }
  BufferMaker::Account account{WholeNode(caller), nullptr};
  if (limit) {
    account.take_room = [this, caller, bytes = request.bytes, limit = *limit] {
      return TakeRoom(caller, bytes, limit);
    };
  }
  // All users of a node have one account, and ids are each user's own.
  if (!request.request_id.empty()) request.request_id = uid.ToString() + "/" + request.request_id;
  needs_.maker.Create({uid, caller, false, {}}, request, std::move(reply), std::move(account));
}

void PeerService::DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                               StatusReply reply) {
  needs_.removal.Remove({uid, caller, false, {}}, name, force, std::move(reply));
}

void PeerService::GetBuffer(const std::string& caller, Uid uid, std::string name,
                            Reply<BufferInfo> reply) {
  const Principal who{uid, caller, false, {}};
  Result<Buffer*> buffer = needs_.grants.FindKnown(needs_.buffers, who, name);
  if (!buffer.ok()) return reply(buffer.status());
  if (!needs_.grants.Sees(who, **buffer)) {
    return reply(Status(Code::kPermissionDenied, reasons::kNotOwner,
                        "buffer \"" + (*buffer)->name + "\" on node " + needs_.context.node() +
                            " belongs to " + (*buffer)->owner.ToString(),
                        needs_.grants.HowToBeAllowed({uid, caller}, (*buffer)->owner)));
  }
  reply(needs_.buffers.Describe(**buffer));
}

void PeerService::ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                              Reply<Page<BufferInfo>> reply) {
  reply(needs_.inventory.BuffersSeenBy({uid, caller, false, {}}, page));
}

void PeerService::SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                            Reply<BufferSum> reply) {
  needs_.inventory.SumOf({uid, caller, false, {}}, request, std::move(reply));
}

void PeerService::ListGrants(const std::string& caller, Uid uid, PageRequest page,
                             Reply<Page<GrantInfo>> reply) {
  reply(needs_.inventory.GrantsOf(Principal{uid, caller, false, {}}, page));
}

void PeerService::ListExports(const std::string& caller, Uid uid, PageRequest page,
                              Reply<Page<ExportInfo>> reply) {
  reply(needs_.exports.SeenBy({uid, caller, false, {}}, page));
}

void PeerService::SendMessage(const std::string& caller, PeerMessage message, StatusReply reply) {
  reply(needs_.messages.Take(caller, message));
}

}  // namespace onecopy::engine
