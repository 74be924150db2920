// What daemons ask each other, both ways: the proxy prints requests and parses answers, the server
// parses requests and prints answers. See convert_client.h.
#pragma once

#include <tuple>

#include "daemon/engine/api/peer_api.h"
#include "daemon/rpc/convert/client.h"
#include "onecopy/v1/peer.pb.h"

namespace onecopy::rpc {

// INVALID_ARGUMENT (BAD_NAME) for what cannot be the name of a node.
Status CheckNodeName(const std::string& name, const Field& at);

// Who asks, of a message that says it in `uid` and `uid_namespaces`.
template <typename Message>
Result<Uid> ParseUid(const Message& in, const Field& at) {
  if (const Status names = CheckNamespaces(in.uid_namespaces()); !names.ok()) {
    return BadField(at / "uid_namespaces", "names no namespaces");
  }
  return Uid{in.uid(), in.uid_namespaces()};
}
template <typename Message>
void PrintUid(const Uid& uid, Message* out) {
  out->set_uid(uid.number);
  out->set_uid_namespaces(uid.namespaces);
}

// Requests, as the arguments of PeerApi's methods. Nobody is an administrator through them: that is
// not in a message.
Result<engine::HelloRequest> Parse(const v1::HelloRequest& in);
Result<engine::ReserveRequest> Parse(const v1::ReserveRequest& in);
Result<engine::StartRequest> Parse(const v1::StartRequest& in);
Result<engine::ConnectRequest> Parse(const v1::ConnectRequest& in);
Result<engine::PrepareRequest> Parse(const v1::PrepareRequest& in);
Result<engine::FinishRequest> Parse(const v1::FinishRequest& in);
Result<engine::OpenProbeRequest> Parse(const v1::OpenProbeRequest& in);
Result<uint64_t> Parse(const v1::CloseProbeRequest& in);
Result<engine::OpenRangeRequest> Parse(const v1::OpenRangeRequest& in);
Result<engine::OpenPushRequest> Parse(const v1::OpenPushRequest& in);
Result<uint64_t> Parse(const v1::CloseOpeningRequest& in);
Result<engine::ImportMemoryRequest> Parse(const v1::ImportMemoryRequest& in);
Result<std::tuple<uint64_t, TransferId>> Parse(const v1::RecallRequest& in);
Result<TransferInfo> Parse(const v1::ReportRequest& in);
Result<TransferId> Parse(const v1::QueryTransferRequest& in);
Result<std::tuple<Uid, TransferId>> Parse(const v1::CancelPeerTransferRequest& in);
Result<std::tuple<Uid, CreateBufferRequest>> Parse(const v1::CreatePeerBufferRequest& in);
Result<std::tuple<Uid, std::string, bool>> Parse(const v1::DeletePeerBufferRequest& in);
Result<std::tuple<Uid, std::string>> Parse(const v1::GetPeerBufferRequest& in);
Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerBuffersRequest& in);
Result<std::tuple<Uid, SumRequest>> Parse(const v1::SumPeerBufferRequest& in);
Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerGrantsRequest& in);
Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerExportsRequest& in);
Result<engine::PeerMessage> Parse(const v1::SendPeerMessageRequest& in);

void Print(const engine::HelloRequest& value, v1::HelloRequest* out);
void Print(const engine::ReserveRequest& value, v1::ReserveRequest* out);
void Print(const engine::StartRequest& value, v1::StartRequest* out);
void Print(const engine::ConnectRequest& value, v1::ConnectRequest* out);
void Print(const engine::PrepareRequest& value, v1::PrepareRequest* out);
void Print(const engine::FinishRequest& value, v1::FinishRequest* out);
void Print(const engine::OpenProbeRequest& value, v1::OpenProbeRequest* out);
void Print(const engine::OpenRangeRequest& value, v1::OpenRangeRequest* out);
void Print(const engine::OpenPushRequest& value, v1::OpenPushRequest* out);
void Print(const engine::ImportMemoryRequest& value, v1::ImportMemoryRequest* out);
void Print(const engine::PeerMessage& value, v1::SendPeerMessageRequest* out);

// Answers. ConnectReply.host is not in its message.
Result<engine::HelloReply> Parse(const v1::HelloResponse& in);
Result<engine::Reservation> Parse(const v1::ReserveResponse& in);
Result<engine::Reservation> Parse(const v1::ReserveResponse& in, const Field& at);
Result<engine::ConnectReply> Parse(const v1::ConnectResponse& in);
Result<engine::PrepareReply> Parse(const v1::PrepareResponse& in);
Result<engine::FinishReply> Parse(const v1::FinishResponse& in);
Result<engine::OpenProbeReply> Parse(const v1::OpenProbeResponse& in);
Result<engine::OpenRangeReply> Parse(const v1::OpenRangeResponse& in);
Result<engine::OpenPushReply> Parse(const v1::OpenPushResponse& in);
Result<engine::MemoryExport> Parse(const v1::MemoryExport& in);

void Print(const engine::HelloReply& value, v1::HelloResponse* out);
void Print(const engine::Reservation& value, v1::ReserveResponse* out);
void Print(const engine::ConnectReply& value, v1::ConnectResponse* out);
void Print(const engine::PrepareReply& value, v1::PrepareResponse* out);
void Print(const engine::FinishReply& value, v1::FinishResponse* out);
void Print(const engine::OpenProbeReply& value, v1::OpenProbeResponse* out);
void Print(const engine::OpenRangeReply& value, v1::OpenRangeResponse* out);
void Print(const engine::OpenPushReply& value, v1::OpenPushResponse* out);
void Print(const engine::MemoryExport& value, v1::MemoryExport* out);

}  // namespace onecopy::rpc
