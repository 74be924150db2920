#include "daemon/engine/peer_front.h"

#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probe_slabs.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/rings/open_range.h"
#include "daemon/engine/sharing/borrower.h"
#include "daemon/engine/sharing/lender.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/transfers/mirrors.h"
#include "daemon/engine/transfers/transfers.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

void PeerFront::Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) {
  parts_.peers.AnswerHello(caller, std::move(request), std::move(reply));
}

void PeerFront::Reserve(const std::string& caller, ReserveRequest request,
                        Reply<Reservation> reply) {
  reply(parts_.tickets.Reserve(caller, request));
}

void PeerFront::Start(const std::string& caller, StartRequest request, Reply<TransferInfo> reply) {
  destinations_.Start(caller, request, std::move(reply));
}

void PeerFront::Connect(const std::string& caller, ConnectRequest request,
                        Reply<ConnectReply> reply) {
  parts_.connections.Accept(caller, request, std::move(reply));
}

void PeerFront::Prepare(const std::string& caller, PrepareRequest request,
                        Reply<PrepareReply> reply) {
  sources_.Prepare(caller, std::move(request), std::move(reply));
}

void PeerFront::Finish(const std::string& caller, FinishRequest request, Reply<FinishReply> reply) {
  sources_.Finish(caller, request, std::move(reply));
}

void PeerFront::OpenProbe(const std::string& caller, OpenProbeRequest request,
                          Reply<OpenProbeReply> reply) {
  if (parts_.context.draining) {
    return reply(Status(Code::kUnavailable, reasons::kDraining,
                        "node " + parts_.context.node() + " is shutting down"));
  }
  parts_.probe_slabs.Open(caller, std::move(request), std::move(reply));
}

void PeerFront::CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) {
  parts_.probe_slabs.Close(caller, probe, std::move(reply));
}

void PeerFront::OpenRange(const std::string& caller, OpenRangeRequest request,
                          Reply<OpenRangeReply> reply) {
  engine::OpenRange(parts_, caller, request, std::move(reply));
}

void PeerFront::OpenPush(const std::string& caller, OpenPushRequest request,
                         Reply<OpenPushReply> reply) {
  engine::OpenPush(parts_, caller, std::move(request), std::move(reply));
}

void PeerFront::CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) {
  parts_.openings.CloseOf(caller, opening);
  reply(OkStatus());
}

void PeerFront::Borrow(const std::string& caller, BorrowRequest request, Reply<Loan> reply) {
  parts_.lender.Lend(caller, request, std::move(reply));
}

void PeerFront::Recall(const std::string& caller, uint64_t loan, TransferId id, StatusReply reply) {
  parts_.borrower.Recall(caller, loan, id, std::move(reply));
}

void PeerFront::Report(const std::string& caller, TransferInfo transfer, StatusReply reply) {
  reply(parts_.mirrors.OnReport(caller, transfer));
}

Result<TransferRecord*> PeerFront::FindDecided(const std::string& caller, const TransferId& id) {
  TransferRecord* record = parts_.transfers.Find(id);
  const bool here =
      record != nullptr && (record->series ? parts_.context.IsSelf(record->orderer)
                                           : record->info.role == TransferRole::kDestination);
  if (here && (record->orderer == caller || record->info.source.node == caller ||
               record->info.destination.node == caller || parts_.context.IsSelf(caller))) {
    return record;
  }
  return Status(Code::kNotFound, reasons::kTransferNotFound,
                "node " + parts_.context.node() + " receives no transfer " + Printable(id.str()) +
                    " in which node " + caller + " has a part");
}

void PeerFront::Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindDecided(caller, id);
  if (!record.ok()) return reply(record.status());
  reply((*record)->info);
}

void PeerFront::Cancel(const std::string& caller, Uid uid, TransferId id,
                       Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindDecided(caller, id);
  if (!record.ok()) return reply(record.status());
  if ((*record)->run != nullptr) {
    (*record)->run->Cancel(
        {Code::kCancelled, reasons::kCancelled, "cancelled by " + Owner{uid, caller}.ToString()});
  }
  reply((*record)->info);
}

void PeerFront::GetBuffer(const std::string& caller, Uid uid, std::string name,
                          Reply<BufferInfo> reply) {
  const Principal who{uid, caller, false, {}};
  Result<Buffer*> buffer = parts_.grants.FindKnown(parts_.buffers, who, name);
  if (!buffer.ok()) return reply(buffer.status());
  if (!parts_.grants.Sees(who, **buffer)) {
    return reply(Status(Code::kPermissionDenied, reasons::kNotOwner,
                        "buffer \"" + (*buffer)->name + "\" on node " + parts_.context.node() +
                            " belongs to " + (*buffer)->owner.ToString(),
                        parts_.grants.HowToBeAllowed({uid, caller}, (*buffer)->owner)));
  }
  reply(parts_.buffers.Describe(**buffer));
}

void PeerFront::ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                            Reply<Page<BufferInfo>> reply) {
  reply(BuffersSeenBy(parts_, {uid, caller, false, {}}, page));
}

Result<Page<BufferInfo>> BuffersSeenBy(Parts& parts, const Principal& who,
                                       const PageRequest& page) {
  if (who.administrator) return parts.buffers.ListAll(page);
  Buffers::Names names = parts.buffers.NamesOf(parts.owners, who);
  for (const BufferId id : parts.grants.GrantedTo(who)) {
    if (const Buffer* buffer = parts.buffers.FindById(id)) names.insert(buffer->name);
  }
  return parts.buffers.List(page, names);
}

void PeerFront::SumBuffer(const std::string& caller, Uid uid, Endpoint range, Reply<Sum> reply) {
  SumOf(parts_, {uid, caller, false, {}}, range, std::move(reply));
}

void PeerFront::ListGrants(const std::string& caller, Uid uid, PageRequest page,
                           Reply<Page<GrantInfo>> reply) {
  reply(GrantsOf(parts_, Principal{uid, caller, false, {}}, page));
}

Result<Page<GrantInfo>> GrantsOf(Parts& parts, const Principal& who, const PageRequest& page) {
  std::set<BufferId> own;
  for (const std::string& name : parts.buffers.NamesOf(parts.owners, who)) {
    own.insert(parts.buffers.by_name().at(name));
  }
  return parts.grants.List(page, own, OwnerOf(who));
}

void SumOf(Parts& parts, const Principal& who, const Endpoint& endpoint, Reply<Sum> reply) {
  Result<Buffer*> buffer = parts.grants.FindKnown(parts.buffers, who, endpoint.buffer);
  if (!buffer.ok()) return reply(buffer.status());
  Result<ByteRange> range =
      ResolveRange(endpoint, (*buffer)->bytes, "buffer \"" + (*buffer)->name + "\"");
  if (!range.ok()) return reply(range.status());
  const auto grant = parts.grants.Check(who, **buffer, *range, Access::kRead);
  if (!grant.ok()) return reply(grant.status());
  // Not needed any more once its client has gone. A peer's word for one of its users has no
  // session.
  std::shared_ptr<const std::atomic<bool>> stop = parts.sessions.Gone(who.session);
  if (stop == nullptr) stop = std::make_shared<std::atomic<bool>>(false);
  parts.checksums.Sum(
      (*buffer)->region, *range, nullptr, std::move(stop),
      [bytes = range->bytes, reply = std::move(reply)](Result<std::string> sum) mutable {
        if (!sum.ok()) return reply(sum.status());
        reply(Sum{kChecksumAlgorithm, std::move(*sum), bytes});
      });
}

}  // namespace onecopy::engine
