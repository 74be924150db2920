// PeerApi of another node, over gRPC.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/rpc/outgoing/outgoing.h"
#include "daemon/rpc/outgoing/peer_channel.h"

namespace onecopy::rpc {

// Engine thread. Made by the Dialer, where the contract is. `caller` is this node's own name in
// each method.
class RemoteNode final : public engine::PeerApi {
 public:
  RemoteNode(std::unique_ptr<PeerChannel> channel, Executor& engine, grpc::CompletionQueue& queue);
  ~RemoteNode() override;

  void Hello(const std::string& caller, engine::HelloRequest request,
             engine::Reply<engine::HelloReply> reply) override;
  void Reserve(const std::string& caller, engine::ReserveRequest request,
               engine::Reply<engine::Reservation> reply) override;
  void Start(const std::string& caller, engine::StartRequest request,
             engine::Reply<TransferInfo> reply) override;
  void Connect(const std::string& caller, engine::ConnectRequest request,
               engine::Reply<engine::ConnectReply> reply) override;
  void Prepare(const std::string& caller, engine::PrepareRequest request,
               engine::Reply<engine::PrepareReply> reply) override;
  void Finish(const std::string& caller, engine::FinishRequest request,
              engine::Reply<engine::FinishReply> reply) override;
  void OpenProbe(const std::string& caller, engine::OpenProbeRequest request,
                 engine::Reply<engine::OpenProbeReply> reply) override;
  void CloseProbe(const std::string& caller, uint64_t probe, engine::StatusReply reply) override;
  void OpenRange(const std::string& caller, engine::OpenRangeRequest request,
                 engine::Reply<engine::OpenRangeReply> reply) override;
  void OpenPush(const std::string& caller, engine::OpenPushRequest request,
                engine::Reply<engine::OpenPushReply> reply) override;
  void CloseOpening(const std::string& caller, uint64_t opening,
                    engine::StatusReply reply) override;
  void ImportMemory(const std::string& caller, engine::ImportMemoryRequest request,
                    engine::Reply<engine::MemoryExport> reply) override;
  void Recall(const std::string& caller, uint64_t loan, TransferId id,
              engine::StatusReply reply) override;
  void Report(const std::string& caller, TransferInfo transfer, engine::StatusReply reply) override;
  void Query(const std::string& caller, TransferId id, engine::Reply<TransferInfo> reply) override;
  void Cancel(const std::string& caller, Uid uid, TransferId id,
              engine::Reply<TransferInfo> reply) override;
  void CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                    engine::Reply<BufferInfo> reply) override;
  void DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                    engine::StatusReply reply) override;
  void GetBuffer(const std::string& caller, Uid uid, std::string name,
                 engine::Reply<BufferInfo> reply) override;
  void ListBuffers(const std::string& caller, Uid uid, engine::PageRequest page,
                   engine::Reply<engine::Page<BufferInfo>> reply) override;
  void SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                 engine::Reply<BufferSum> reply) override;
  void ListGrants(const std::string& caller, Uid uid, engine::PageRequest page,
                  engine::Reply<engine::Page<GrantInfo>> reply) override;
  void ListExports(const std::string& caller, Uid uid, engine::PageRequest page,
                   engine::Reply<engine::Page<ExportInfo>> reply) override;
  void SendMessage(const std::string& caller, engine::PeerMessage message,
                   engine::StatusReply reply) override;

 private:
  // `then(status, message, address that answered)` gets our Status for gRPC's.
  template <typename Request, typename Message, typename Then>
  void Call(const std::string& caller, const PeerMethod& method,
            OutgoingCalls::Start<Request, Message> start, const Request& request, Then then);
  // Answers with what Parse makes of the message, once `complete(value, address)` has had it.
  template <typename Request, typename Message, typename T, typename Complete>
  void Ask(const std::string& caller, const PeerMethod& method,
           OutgoingCalls::Start<Request, Message> start, const Request& request,
           engine::Reply<T> reply, Complete complete);
  template <typename Request, typename Message, typename T>
  void Ask(const std::string& caller, const PeerMethod& method,
           OutgoingCalls::Start<Request, Message> start, const Request& request,
           engine::Reply<T> reply);

  // Shared with the calls, whose ends may come after this.
  const std::shared_ptr<PeerChannel> channel_;
  OutgoingCalls calls_;
};

}  // namespace onecopy::rpc
