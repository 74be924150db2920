// This node, as a peer asks it, and as it asks itself.
#pragma once

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/sources.h"

namespace onecopy::engine {

class PeerFront final : public PeerApi {
 public:
  explicit PeerFront(Parts& parts) : parts_(parts), sources_(parts), destinations_(parts) {}

  Sources& sources() { return sources_; }

  void Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) override;
  void Reserve(const std::string& caller, ReserveRequest request,
               Reply<Reservation> reply) override;
  void Start(const std::string& caller, StartRequest request, Reply<TransferInfo> reply) override;
  void Connect(const std::string& caller, ConnectRequest request,
               Reply<ConnectReply> reply) override;
  void Prepare(const std::string& caller, PrepareRequest request,
               Reply<PrepareReply> reply) override;
  void Finish(const std::string& caller, FinishRequest request, Reply<FinishReply> reply) override;
  void OpenProbe(const std::string& caller, OpenProbeRequest request,
                 Reply<OpenProbeReply> reply) override;
  void CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) override;
  void OpenRange(const std::string& caller, OpenRangeRequest request,
                 Reply<OpenRangeReply> reply) override;
  void OpenPush(const std::string& caller, OpenPushRequest request,
                Reply<OpenPushReply> reply) override;
  void CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) override;
  void Borrow(const std::string& caller, BorrowRequest request, Reply<Loan> reply) override;
  void Recall(const std::string& caller, uint64_t loan, TransferId id, StatusReply reply) override;
  void Report(const std::string& caller, TransferInfo transfer, StatusReply reply) override;
  void Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) override;
  void Cancel(const std::string& caller, Uid uid, TransferId id,
              Reply<TransferInfo> reply) override;
  void GetBuffer(const std::string& caller, Uid uid, std::string name,
                 Reply<BufferInfo> reply) override;
  void ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                   Reply<Page<BufferInfo>> reply) override;
  void SumBuffer(const std::string& caller, Uid uid, Endpoint range, Reply<Sum> reply) override;
  void ListGrants(const std::string& caller, Uid uid, PageRequest page,
                  Reply<Page<GrantInfo>> reply) override;

 private:
  // A transfer that this node decides and `caller` has a part in.
  Result<TransferRecord*> FindDecided(const std::string& caller, const TransferId& id);

  Parts& parts_;
  Sources sources_;
  Destinations destinations_;
};

// The buffers of this node that `who` owns or has a grant on, by name; all for an administrator.
Result<Page<BufferInfo>> BuffersSeenBy(Parts& parts, const Principal& who, const PageRequest& page);

// Sums a range of a buffer of this node, for whoever may read it.
// The grants on what `who` owns, and those to `who`.
Result<Page<GrantInfo>> GrantsOf(Parts& parts, const Principal& who, const PageRequest& page);

void SumOf(Parts& parts, const Principal& who, const Endpoint& range, Reply<Sum> reply);

}  // namespace onecopy::engine
