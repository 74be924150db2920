// Which nodes may ask what of a daemon: every call of PeerService, as everyone who may call.
#include <functional>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/faults/hostile_peer.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"

namespace peers_may_test {
namespace {

namespace v1 = onecopy::v1;
using namespace onecopy::testing;
using Stub = v1::PeerService::Stub;

constexpr uint32_t kGrantee = 1001;
constexpr uint32_t kStranger = 1002;

struct Caller {
  const char* name;
  std::string node;  // as it calls itself
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  uint32_t uid;
};

template <typename Request, typename Response>
using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

using Ask = std::function<grpc::Status(HostilePeer&, uint32_t uid)>;

// A call with what `fill` puts into it; `check` says whether the answer is one.
template <typename Request, typename Response>
Ask Call(Method<Request, Response> method, std::function<void(Request&, uint32_t)> fill) {
  return [method, fill](HostilePeer& peer, uint32_t uid) {
    Request request;
    fill(request, uid);
    Response response;
    return (peer.stub().*method)(peer.Context().get(), request, &response);
  };
}

void FillEnd(v1::Endpoint* end, const char* buffer) {
  end->set_buffer(buffer);
  end->set_offset_bytes(0);
  end->set_bytes(16);
}

void FillReservation(v1::ReserveResponse* reservation, const char* node) {
  reservation->set_ticket("guess");
  reservation->set_memory("host");
  reservation->mutable_source()->set_node(node);
  FillEnd(reservation->mutable_source(), "a");
}

void FillTransfer(v1::Transfer* transfer) {
  transfer->set_id("guess");
  transfer->set_state(v1::RUNNING);
  transfer->set_role(v1::DESTINATION);
  transfer->set_owner("1@mallory");
  transfer->mutable_create_time();
  transfer->mutable_source()->set_node("east");
  transfer->mutable_source()->set_buffer("a");
  transfer->mutable_destination()->set_node("mallory");
  transfer->mutable_destination()->set_buffer("b");
}

struct Row {
  const char* name;
  Ask ask;
  // As a node that is listed: with a right to read 16 bytes of "a", and without any.
  grpc::StatusCode grantee;
  grpc::StatusCode stranger;
};

std::vector<Row> Rows() {
  using enum grpc::StatusCode;
  return {
      {"Hello",
       Call<v1::HelloRequest, v1::HelloResponse>(&Stub::Hello,
                                                 [](auto& request, uint32_t) {
                                                   request.mutable_self()->set_node("mallory");
                                                   request.mutable_self()->set_protocol_max(1);
                                                   request.mutable_self()->set_address(
                                                       "127.0.0.1:1");
                                                 }),
       OK, OK},
      {"Reserve",
       Call<v1::ReserveRequest, v1::ReserveResponse>(&Stub::Reserve,
                                                     [](auto& request, uint32_t uid) {
                                                       request.set_transfer_id("matrix");
                                                       request.set_uid(uid);
                                                       request.set_destination_node("mallory");
                                                       FillEnd(request.mutable_source(), "a");
                                                     }),
       OK, NOT_FOUND},
      {"Reserve of more than was granted",
       Call<v1::ReserveRequest, v1::ReserveResponse>(&Stub::Reserve,
                                                     [](auto& request, uint32_t uid) {
                                                       request.set_transfer_id("matrix");
                                                       request.set_uid(uid);
                                                       request.set_destination_node("mallory");
                                                       request.mutable_source()->set_buffer("a");
                                                     }),
       PERMISSION_DENIED, NOT_FOUND},
      {"Start without a ticket",
       Call<v1::StartRequest, v1::Transfer>(&Stub::Start,
                                            [](auto& request, uint32_t uid) {
                                              request.set_transfer_id("matrix");
                                              request.set_uid(uid);
                                              FillReservation(request.mutable_reservation(),
                                                              "east");
                                              FillEnd(request.mutable_destination(), "a");
                                            }),
       PERMISSION_DENIED, PERMISSION_DENIED},
      {"Connect of a link that there is not",
       Call<v1::ConnectRequest, v1::ConnectResponse>(
           &Stub::Connect, [](auto& request, uint32_t) { request.set_link("none"); }),
       FAILED_PRECONDITION, FAILED_PRECONDITION},
      {"Prepare without a connection",
       Call<v1::PrepareRequest, v1::PrepareResponse>(&Stub::Prepare,
                                                     [](auto& request, uint32_t) {
                                                       request.set_ticket("guess");
                                                       request.set_transfer_id("guess");
                                                       request.set_connection(1);
                                                       FillTransfer(request.mutable_transfer());
                                                     }),
       NOT_FOUND, NOT_FOUND},
      {"Finish of no transfer of its own",
       Call<v1::FinishRequest, v1::FinishResponse>(
           &Stub::Finish, [](auto& request, uint32_t) { request.set_transfer_id("guess"); }),
       NOT_FOUND, NOT_FOUND},
      {"OpenProbe without a connection",
       Call<v1::OpenProbeRequest, v1::OpenProbeResponse>(&Stub::OpenProbe,
                                                         [](auto& request, uint32_t) {
                                                           request.set_connection(1);
                                                           request.set_memory("host");
                                                           request.set_bytes(4096);
                                                         }),
       NOT_FOUND, NOT_FOUND},
      {"CloseProbe",
       Call<v1::CloseProbeRequest, google::protobuf::Empty>(
           &Stub::CloseProbe, [](auto& request, uint32_t) { request.set_probe(1); }),
       OK, OK},
      {"OpenRange without a connection",
       Call<v1::OpenRangeRequest, v1::OpenRangeResponse>(&Stub::OpenRange,
                                                         [](auto& request, uint32_t) {
                                                           request.set_ticket("guess");
                                                           request.set_transfer_id("guess");
                                                           request.set_connection(1);
                                                         }),
       NOT_FOUND, NOT_FOUND},
      {"OpenPush into what may not be written",
       Call<v1::OpenPushRequest, v1::OpenPushResponse>(
           &Stub::OpenPush,
           [](auto& request, uint32_t uid) {
             request.set_transfer_id("guess");
             request.set_uid(uid);
             FillReservation(request.mutable_reservation(), "mallory");
             FillEnd(request.mutable_destination(), "a");
           }),
       PERMISSION_DENIED, NOT_FOUND},
      {"CloseOpening",
       Call<v1::CloseOpeningRequest, google::protobuf::Empty>(
           &Stub::CloseOpening, [](auto& request, uint32_t) { request.set_opening(1); }),
       OK, OK},
      {"ImportMemory without a ticket",
       Call<v1::ImportMemoryRequest, v1::MemoryExport>(&Stub::ImportMemory,
                                                       [](auto& request, uint32_t) {
                                                         request.set_ticket("guess");
                                                         request.set_transfer_id("guess");
                                                       }),
       PERMISSION_DENIED, PERMISSION_DENIED},
      {"Recall of what it has not lent",
       Call<v1::RecallRequest, google::protobuf::Empty>(
           &Stub::Recall, [](auto& request, uint32_t) { request.set_loan(1); }),
       OK, OK},
      {"Report of no transfer of its own",
       Call<v1::ReportRequest, google::protobuf::Empty>(
           &Stub::Report,
           [](auto& request, uint32_t) { FillTransfer(request.mutable_transfer()); }),
       NOT_FOUND, NOT_FOUND},
      {"QueryTransfer of another's",
       Call<v1::QueryTransferRequest, v1::Transfer>(
           &Stub::QueryTransfer, [](auto& request, uint32_t) { request.set_transfer_id("guess"); }),
       NOT_FOUND, NOT_FOUND},
      {"CancelTransfer of another's",
       Call<v1::CancelPeerTransferRequest, v1::Transfer>(&Stub::CancelTransfer,
                                                         [](auto& request, uint32_t uid) {
                                                           request.set_transfer_id("guess");
                                                           request.set_uid(uid);
                                                         }),
       NOT_FOUND, NOT_FOUND},
      {"GetBuffer",
       Call<v1::GetPeerBufferRequest, v1::Buffer>(&Stub::GetBuffer,
                                                  [](auto& request, uint32_t uid) {
                                                    request.set_uid(uid);
                                                    request.set_name("a");
                                                  }),
       OK, NOT_FOUND},
      {"ListBuffers",
       Call<v1::ListPeerBuffersRequest, v1::ListBuffersResponse>(
           &Stub::ListBuffers, [](auto& request, uint32_t uid) { request.set_uid(uid); }),
       OK, OK},
      {"ListGrants",
       Call<v1::ListPeerGrantsRequest, v1::ListGrantsResponse>(
           &Stub::ListGrants, [](auto& request, uint32_t uid) { request.set_uid(uid); }),
       OK, OK},
      {"ListExports",
       Call<v1::ListPeerExportsRequest, v1::ListExportsResponse>(
           &Stub::ListExports, [](auto& request, uint32_t uid) { request.set_uid(uid); }),
       OK, OK},
      {"SendMessage",
       Call<v1::SendPeerMessageRequest, google::protobuf::Empty>(
           &Stub::SendMessage,
           [](auto& request, uint32_t uid) {
             request.set_uid(uid);
             request.mutable_destination()->set_buffer("a");
             request.set_message("m");
           }),
       PERMISSION_DENIED, NOT_FOUND},
      {"SumBuffer of what was granted",
       Call<v1::SumPeerBufferRequest, v1::SumBufferResponse>(&Stub::SumBuffer,
                                                             [](auto& request, uint32_t uid) {
                                                               request.set_uid(uid);
                                                               FillEnd(request.mutable_range(),
                                                                       "a");
                                                             }),
       OK, NOT_FOUND},
      {"SumBuffer",
       Call<v1::SumPeerBufferRequest, v1::SumBufferResponse>(&Stub::SumBuffer,
                                                             [](auto& request, uint32_t uid) {
                                                               request.set_uid(uid);
                                                               request.mutable_range()->set_buffer(
                                                                   "a");
                                                             }),
       PERMISSION_DENIED, NOT_FOUND},
  };
}

std::shared_ptr<grpc::ChannelCredentials> With(const Authority& authority,
                                               const Authority::Files& files) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadFile(authority.ca());
  options.pem_private_key = ReadFile(files.key);
  options.pem_cert_chain = ReadFile(files.certificate);
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> WithoutCertificate(const Authority& authority) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadFile(authority.ca());
  return grpc::SslCredentials(options);
}

}  // namespace

TEST_CASE("which nodes may ask what") {
  using enum grpc::StatusCode;
  Authority authority;
  Authority foreign;
  const Authority::Files own = authority.Issue("east", "DNS:east");
  const Authority::Files revoked = authority.Issue("mallory-revoked", "DNS:mallory");
  Node east("east", {.config = "[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" +
                               own.certificate + "\"\nkey = \"" + own.key + "\"\ncrl = \"" +
                               authority.Revoke({revoked}) + "\"\n[peers.mallory]\n"});
  const Kept kept(east);
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  east.Do({"grant", "add", "a@0+16", "--to", "1001@mallory", "--read"});
  east.Do({"grant", "add", "a@0+16", "--to", "1001@stranger", "--read"});

  const auto certified = [&](const std::string& name, bool expired = false) {
    return With(authority, authority.Issue(name + (expired ? "-old" : ""), "DNS:" + name, expired));
  };
  struct Column {
    Caller caller;
    std::optional<grpc::StatusCode> all;  // what every call is answered with; none: by the row
  };
  const std::vector<Column> columns = {
      {{"a listed peer, for a grantee", "mallory", certified("mallory"), kGrantee}, {}},
      {{"a listed peer, for anybody else", "mallory", certified("mallory"), kStranger}, {}},
      {{"an unlisted node", "stranger", certified("stranger"), kGrantee}, PERMISSION_DENIED},
      {{"a listed name, by another's certificate", "mallory", certified("stranger"), kGrantee},
       UNAUTHENTICATED},
      {{"no certificate", "mallory", WithoutCertificate(authority), kGrantee}, UNAVAILABLE},
      {{"a certificate that has expired", "mallory", certified("mallory", true), kGrantee},
       UNAVAILABLE},
      {{"a certificate that was revoked", "mallory", With(authority, revoked), kGrantee},
       UNAUTHENTICATED},
      {{"another authority's certificate", "mallory",
        [&] {
          grpc::SslCredentialsOptions options;
          const Authority::Files files = foreign.Issue("mallory", "DNS:mallory");
          options.pem_root_certs = ReadFile(authority.ca());
          options.pem_private_key = ReadFile(files.key);
          options.pem_cert_chain = ReadFile(files.certificate);
          return grpc::SslCredentials(options);
        }(),
        kGrantee},
       UNAVAILABLE},
      {{"plain text", "mallory", nullptr, kGrantee}, UNAVAILABLE},
  };
  size_t cells = 0;
  for (const auto& [caller, all] : columns) {
    HostilePeer peer(east, caller.node, caller.credentials);
    for (const Row& row : Rows()) {
      const grpc::Status answered = row.ask(peer, caller.uid);
      INFO(caller.name << ": " << row.name << ": " << answered.error_message());
      const grpc::StatusCode expected = all                      ? *all
                                        : caller.uid == kGrantee ? row.grantee
                                                                 : row.stranger;
      CHECK(answered.error_code() == expected);
      ++cells;
    }
  }
  CHECK(cells >= 100);
  kept.CheckUnchanged();
  CheckServes(east);
}
}  // namespace peers_may_test
