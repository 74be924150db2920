#include "daemon/rpc/outgoing/remote_node.h"

#include <utility>

#include "daemon/rpc/convert/peer.h"
#include "daemon/rpc/identity/peer_address.h"

namespace onecopy::rpc {
namespace {

using engine::Reply;
using engine::StatusReply;
using Stub = v1::PeerService::Stub;

constexpr std::chrono::seconds kHello{3};
constexpr std::chrono::seconds kNegotiation{10};
constexpr std::chrono::minutes kAllocation{2};   // memory is zeroed, and registered with devices
constexpr std::chrono::minutes kWholeRange{10};  // what may read a whole range for its checksum

}  // namespace

RemoteNode::RemoteNode(std::unique_ptr<PeerChannel> channel, Executor& engine,
                       grpc::CompletionQueue& queue)
    : channel_(std::move(channel)), calls_(engine, queue) {}

RemoteNode::~RemoteNode() { channel_->GiveUp(); }

template <typename Request, typename Message, typename Then>
void RemoteNode::Call(const std::string& caller, const PeerMethod& method,
                      OutgoingCalls::Start<Request, Message> start, const Request& request,
                      Then then) {
  channel_->Connect([this, caller, method, start, request,
                     then = std::move(then)](Result<PeerChannel::Line> line) mutable {
    if (!line.ok()) return then(line.status(), Message(), std::string());
    calls_.Call<Request, Message>(
        *line->stub, start, request, caller, method.timeout,
        [channel = channel_, line = *line, method, then = std::move(then)](
            const grpc::Status& status, const Message& message, const std::string& peer) mutable {
          then(status.ok() ? OkStatus() : channel->Explain(method, line, status), message,
               line.peer.empty() ? peer : line.peer);
        });
  });
}

template <typename Request, typename Message, typename T, typename Complete>
void RemoteNode::Ask(const std::string& caller, const PeerMethod& method,
                     OutgoingCalls::Start<Request, Message> start, const Request& request,
                     Reply<T> reply, Complete complete) {
  Call(caller, method, start, request,
       [channel = channel_, method, reply = std::move(reply), complete](
           const Status& status, const Message& message, const std::string& peer) mutable {
         if (!status.ok()) return reply(status);
         Result<T> value = Parse(message);
         if (!value.ok()) return reply(channel->BadReply(method, value.status()));
         const Status completed = complete(*value, peer);
         if (!completed.ok()) return reply(completed);
         reply(std::move(value));
       });
}

template <typename Request, typename Message, typename T>
void RemoteNode::Ask(const std::string& caller, const PeerMethod& method,
                     OutgoingCalls::Start<Request, Message> start, const Request& request,
                     Reply<T> reply) {
  Ask(caller, method, start, request, std::move(reply),
      [](const T&, const std::string&) { return OkStatus(); });
}

void RemoteNode::Hello(const std::string& caller, engine::HelloRequest request,
                       Reply<engine::HelloReply> reply) {
  v1::HelloRequest message;
  Print(request, &message);
  Ask(caller, {"Hello", kHello}, &Stub::AsyncHello, message, std::move(reply),
      [](engine::HelloReply& hello, const std::string& peer) {
        hello.self.address = CompleteAddress(hello.self.address, peer);
        return OkStatus();
      });
}

void RemoteNode::Reserve(const std::string& caller, engine::ReserveRequest request,
                         Reply<engine::Reservation> reply) {
  v1::ReserveRequest message;
  Print(request, &message);
  Ask(caller, {"Reserve", kNegotiation}, &Stub::AsyncReserve, message, std::move(reply));
}

void RemoteNode::Start(const std::string& caller, engine::StartRequest request,
                       Reply<TransferInfo> reply) {
  v1::StartRequest message;
  Print(request, &message);
  Ask(caller, {"Start", kNegotiation}, &Stub::AsyncStart, message, std::move(reply));
}

void RemoteNode::Connect(const std::string& caller, engine::ConnectRequest request,
                         Reply<engine::ConnectReply> reply) {
  v1::ConnectRequest message;
  Print(request, &message);
  Ask(caller, {"Connect", kNegotiation}, &Stub::AsyncConnect, message, std::move(reply),
      [](engine::ConnectReply& answer, const std::string& peer) -> Status {
        ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, ParsePeerUri(peer));
        answer.host = address.host;
        return OkStatus();
      });
}

void RemoteNode::Prepare(const std::string& caller, engine::PrepareRequest request,
                         Reply<engine::PrepareReply> reply) {
  v1::PrepareRequest message;
  Print(request, &message);
  Ask(caller, {"Prepare", kNegotiation}, &Stub::AsyncPrepare, message, std::move(reply));
}

void RemoteNode::Finish(const std::string& caller, engine::FinishRequest request,
                        Reply<engine::FinishReply> reply) {
  v1::FinishRequest message;
  Print(request, &message);
  const std::chrono::milliseconds timeout = request.checksum
                                                ? std::chrono::milliseconds(kWholeRange)
                                                : std::chrono::milliseconds(kNegotiation);
  Ask(caller, {"Finish", timeout}, &Stub::AsyncFinish, message, std::move(reply));
}

void RemoteNode::OpenProbe(const std::string& caller, engine::OpenProbeRequest request,
                           Reply<engine::OpenProbeReply> reply) {
  v1::OpenProbeRequest message;
  Print(request, &message);
  Ask(caller, {"OpenProbe", kNegotiation}, &Stub::AsyncOpenProbe, message, std::move(reply));
}

void RemoteNode::CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) {
  v1::CloseProbeRequest message;
  message.set_probe(probe);
  Call(caller, {"CloseProbe", kNegotiation}, &Stub::AsyncCloseProbe, message,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

void RemoteNode::OpenRange(const std::string& caller, engine::OpenRangeRequest request,
                           Reply<engine::OpenRangeReply> reply) {
  v1::OpenRangeRequest message;
  Print(request, &message);
  Ask(caller, {"OpenRange", kNegotiation}, &Stub::AsyncOpenRange, message, std::move(reply));
}

void RemoteNode::OpenPush(const std::string& caller, engine::OpenPushRequest request,
                          Reply<engine::OpenPushReply> reply) {
  v1::OpenPushRequest message;
  Print(request, &message);
  Ask(caller, {"OpenPush", kNegotiation}, &Stub::AsyncOpenPush, message, std::move(reply));
}

void RemoteNode::CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) {
  v1::CloseOpeningRequest message;
  message.set_opening(opening);
  Call(caller, {"CloseOpening", kNegotiation}, &Stub::AsyncCloseOpening, message,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

void RemoteNode::ImportMemory(const std::string& caller, engine::ImportMemoryRequest request,
                              Reply<engine::MemoryExport> reply) {
  v1::ImportMemoryRequest message;
  Print(request, &message);
  Ask(caller, {"ImportMemory", kNegotiation}, &Stub::AsyncImportMemory, message, std::move(reply));
}

void RemoteNode::Recall(const std::string& caller, uint64_t loan, TransferId id,
                        StatusReply reply) {
  v1::RecallRequest message;
  message.set_loan(loan);
  message.set_transfer_id(id.str());
  Call(caller, {"Recall", kNegotiation}, &Stub::AsyncRecall, message,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

void RemoteNode::Report(const std::string& caller, TransferInfo transfer, StatusReply reply) {
  v1::ReportRequest message;
  Print(transfer, message.mutable_transfer());
  Call(caller, {"Report", kNegotiation}, &Stub::AsyncReport, message,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

void RemoteNode::Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) {
  v1::QueryTransferRequest message;
  message.set_transfer_id(id.str());
  Ask(caller, {"QueryTransfer", kNegotiation}, &Stub::AsyncQueryTransfer, message,
      std::move(reply));
}

void RemoteNode::Cancel(const std::string& caller, Uid uid, TransferId id,
                        Reply<TransferInfo> reply) {
  v1::CancelPeerTransferRequest message;
  PrintUid(uid, &message);
  message.set_transfer_id(id.str());
  Ask(caller, {"CancelTransfer", kNegotiation}, &Stub::AsyncCancelTransfer, message,
      std::move(reply));
}

void RemoteNode::CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                              Reply<BufferInfo> reply) {
  v1::CreatePeerBufferRequest message;
  PrintUid(uid, &message);
  Print(request, message.mutable_request());
  Ask(caller, {"CreateBuffer", kAllocation}, &Stub::AsyncCreateBuffer, message, std::move(reply));
}

void RemoteNode::DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                              StatusReply reply) {
  v1::DeletePeerBufferRequest message;
  PrintUid(uid, &message);
  message.set_name(std::move(name));
  message.set_force(force);
  Call(caller, {"DeleteBuffer", kAllocation}, &Stub::AsyncDeleteBuffer, message,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

void RemoteNode::GetBuffer(const std::string& caller, Uid uid, std::string name,
                           Reply<BufferInfo> reply) {
  v1::GetPeerBufferRequest message;
  PrintUid(uid, &message);
  message.set_name(std::move(name));
  Ask(caller, {"GetBuffer", kNegotiation}, &Stub::AsyncGetBuffer, message, std::move(reply));
}

void RemoteNode::ListBuffers(const std::string& caller, Uid uid, engine::PageRequest page,
                             Reply<engine::Page<BufferInfo>> reply) {
  v1::ListPeerBuffersRequest message;
  PrintUid(uid, &message);
  message.set_page_size(page.size);
  message.set_page_token(page.token);
  Ask(caller, {"ListBuffers", kNegotiation}, &Stub::AsyncListBuffers, message, std::move(reply));
}

void RemoteNode::SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                           Reply<BufferSum> reply) {
  v1::SumPeerBufferRequest message;
  PrintUid(uid, &message);
  Print(request.range, message.mutable_range());
  message.set_block_bytes(request.block_bytes);
  Ask(caller, {"SumBuffer", kWholeRange}, &Stub::AsyncSumBuffer, message, std::move(reply));
}

void RemoteNode::ListGrants(const std::string& caller, Uid uid, engine::PageRequest page,
                            Reply<engine::Page<GrantInfo>> reply) {
  v1::ListPeerGrantsRequest message;
  PrintUid(uid, &message);
  message.set_page_size(page.size);
  message.set_page_token(page.token);
  Ask(caller, {"ListGrants", kNegotiation}, &Stub::AsyncListGrants, message, std::move(reply));
}

void RemoteNode::ListExports(const std::string& caller, Uid uid, engine::PageRequest page,
                             Reply<engine::Page<ExportInfo>> reply) {
  v1::ListPeerExportsRequest message;
  PrintUid(uid, &message);
  message.set_page_size(page.size);
  message.set_page_token(page.token);
  Ask(caller, {"ListExports", kNegotiation}, &Stub::AsyncListExports, message, std::move(reply));
}

void RemoteNode::SendMessage(const std::string& caller, engine::PeerMessage message,
                             StatusReply reply) {
  v1::SendPeerMessageRequest request;
  Print(message, &request);
  Call(caller, {"SendMessage", kNegotiation}, &Stub::AsyncSendMessage, request,
       [reply = std::move(reply)](const Status& status, const google::protobuf::Empty&,
                                  const std::string&) mutable { reply(status); });
}

}  // namespace onecopy::rpc
