#include "daemon/engine/sharing/borrowed_range.h"

#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

void BorrowedRange::Borrow(StatusReply borrowed) {
  borrowed_ = std::move(borrowed);
  Status room = needs_.importer.CheckRoutes(params_.node, params_.memory, params_.payer);
  if (!room.ok()) return End(room);
  use_ =
      needs_.importer.Find(params_.node, params_.memory, {params_.id, OnRecall(), params_.payer});
  found_ = use_ != nullptr;
  if (found_) return Open();
  Import();
}

std::function<void()> BorrowedRange::OnRecall() {
  return [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || !self->recalled_.ok()) return;
    self->recalled_ = Status(Code::kAborted, reasons::kOwnerDied,
                             "node " + self->params_.node + " has revoked the source's memory");
    self->params_.recalled(self->recalled_);
  };
}

void BorrowedRange::Import() {
  const Result<PeerApi*> peer = needs_.peers.Find(params_.node);
  if (!peer.ok()) return End(peer.status());
  (*peer)->ImportMemory(needs_.context.node(), {params_.ticket, params_.id},
                        [self = shared_from_this()](const Result<MemoryExport>& loan) {
                          if (!loan.ok()) return self->End(loan.status());
                          const Params& params = self->params_;
                          self->needs_.importer.Get(params.node, params.memory, params.kind, *loan,
                                                    {params.id, self->OnRecall(), params.payer},
                                                    [self](Result<MemoryImporter::UseRef> use) {
                                                      if (!use.ok()) return self->End(use.status());
                                                      self->use_ = std::move(*use);
                                                      self->Open();
                                                    });
                        });
}

void BorrowedRange::Open() {
  const Result<PeerApi*> peer = needs_.peers.Find(params_.node);
  if (!peer.ok()) return End(peer.status());
  OpenRangeRequest request;
  request.ticket = params_.ticket;
  request.id = params_.id;
  request.loan = use_->loan();
  (*peer)->OpenRange(needs_.context.node(), std::move(request),
                     [self = shared_from_this()](Result<OpenRangeReply> opened) {
                       if (opened.ok()) return self->Opened(std::move(*opened));
                       const Status& why = opened.status();
                       if (!self->found_ || why.reason() != reasons::kNotShareable) {
                         return self->End(why);
                       }
                       // What was held from earlier is not what the buffer is now.
                       self->found_ = false;
                       self->needs_.importer.Retire(self->params_.node, self->use_->loan());
                       self->use_.reset();
                       self->recalled_ = OkStatus();
                       self->Import();
                     });
}

void BorrowedRange::Opened(OpenRangeReply opened) {
  opening_ =
      std::make_unique<PeerOpening>(needs_.context, needs_.peers, params_.node, opened.opening);
  const ByteRange& asked = params_.range;
  const ByteRange& lent = opened.lent;
  const uint64_t there = use_->region->bytes();
  if (lent.bytes != asked.bytes || lent.offset < asked.offset || !Contains({0, there}, lent)) {
    return End({Code::kUnavailable, reasons::kLinkDown,
                "node " + params_.node + " lends " + std::to_string(lent.bytes) +
                    " bytes from byte " + std::to_string(lent.offset) + " on, for a range of " +
                    std::to_string(asked.bytes) + " bytes out of " + std::to_string(there)});
  }
  buffer_offset_ = lent.offset - asked.offset;
  End(recalled_);
}

void BorrowedRange::End(const Status& status) {
  if (!status.ok()) use_.reset();
  std::exchange(borrowed_, nullptr)(status);
}

}  // namespace onecopy::engine
