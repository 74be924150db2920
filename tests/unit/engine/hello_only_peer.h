// A node that another one greets, and that is good for nothing else.
#pragma once

#include <string>

#include "daemon/engine/api/peer_api.h"
#include "onecopy/reasons.h"

namespace onecopy::testing {

// Refuses everything that it is not made for.
class HelloOnlyPeer : public engine::PeerApi {
 public:
  void Connect(const std::string&, engine::ConnectRequest,
               engine::Reply<engine::ConnectReply> reply) override {
    reply(No());
  }
  void OpenProbe(const std::string&, engine::OpenProbeRequest,
                 engine::Reply<engine::OpenProbeReply> reply) override {
    reply(No());
  }
  void CloseProbe(const std::string&, uint64_t, engine::StatusReply reply) override { reply(No()); }
  void OpenRange(const std::string&, engine::OpenRangeRequest,
                 engine::Reply<engine::OpenRangeReply> reply) override {
    reply(No());
  }
  void OpenPush(const std::string&, engine::OpenPushRequest,
                engine::Reply<engine::OpenPushReply> reply) override {
    reply(No());
  }
  void CloseOpening(const std::string&, uint64_t, engine::StatusReply reply) override {
    reply(No());
  }
  void ImportMemory(const std::string&, engine::ImportMemoryRequest,
                    engine::Reply<engine::MemoryExport> reply) override {
    reply(No());
  }
  void Recall(const std::string&, uint64_t, TransferId, engine::StatusReply reply) override {
    reply(No());
  }
  void Reserve(const std::string&, engine::ReserveRequest,
               engine::Reply<engine::Reservation> reply) override {
    reply(No());
  }
  void Start(const std::string&, engine::StartRequest, engine::Reply<TransferInfo> reply) override {
    reply(No());
  }
  void Prepare(const std::string&, engine::PrepareRequest,
               engine::Reply<engine::PrepareReply> reply) override {
    reply(No());
  }
  void Finish(const std::string&, engine::FinishRequest,
              engine::Reply<engine::FinishReply> reply) override {
    reply(No());
  }
  void CreateBuffer(const std::string&, Uid, CreateBufferRequest,
                    engine::Reply<BufferInfo> reply) override {
    reply(No());
  }
  void DeleteBuffer(const std::string&, Uid, std::string, bool,
                    engine::StatusReply reply) override {
    reply(No());
  }
  void Report(const std::string&, TransferInfo, engine::StatusReply reply) override { reply(No()); }
  void Query(const std::string&, TransferId, engine::Reply<TransferInfo> reply) override {
    reply(No());
  }
  void Cancel(const std::string&, Uid, TransferId, engine::Reply<TransferInfo> reply) override {
    reply(No());
  }
  void GetBuffer(const std::string&, Uid, std::string, engine::Reply<BufferInfo> reply) override {
    reply(No());
  }
  void ListBuffers(const std::string&, Uid, engine::PageRequest,
                   engine::Reply<engine::Page<BufferInfo>> reply) override {
    reply(No());
  }
  void SumBuffer(const std::string&, Uid, SumRequest, engine::Reply<BufferSum> reply) override {
    reply(No());
  }
  void ListGrants(const std::string&, Uid, engine::PageRequest,
                  engine::Reply<engine::Page<GrantInfo>> reply) override {
    reply(No());
  }
  void ListExports(const std::string&, Uid, engine::PageRequest,
                   engine::Reply<engine::Page<ExportInfo>> reply) override {
    reply(No());
  }
  void SendMessage(const std::string&, engine::PeerMessage, engine::StatusReply reply) override {
    reply(No());
  }

 protected:
  static Status No() {
    return {Code::kFailedPrecondition, reasons::kNicUnreachable, "this peer only says hello"};
  }
};

}  // namespace onecopy::testing
