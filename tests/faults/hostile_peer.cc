#include "tests/faults/hostile_peer.h"

#include <stdexcept>
#include <utility>

namespace onecopy::testing {
namespace {

constexpr std::chrono::minutes kPatience{1};

// A connection of its own, whatever other tests have open to that address.
std::shared_ptr<grpc::Channel> ChannelTo(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const std::string& node) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (credentials == nullptr) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  }
  arguments.SetSslTargetNameOverride(node);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

HostilePeer::HostilePeer(const Node& node, std::string name,
                         std::shared_ptr<grpc::ChannelCredentials> credentials)
    : name_(std::move(name)),
      stub_(v1::PeerService::NewStub(ChannelTo(node.address(), credentials, node.name()))) {}

std::unique_ptr<grpc::ClientContext> HostilePeer::Context() const {
  auto context = std::make_unique<grpc::ClientContext>();
  context->AddMetadata("onecopy-node", name_);
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
  return context;
}

grpc::Status HostilePeer::Reserve(uint32_t uid, const Range& range, const std::string& reader,
                                  v1::ReserveResponse* response) {
  transfer_id_ = name_ + std::to_string(next_++);  // with a dash it would be a ring's
  v1::ReserveRequest request;
  request.set_transfer_id(transfer_id_);
  request.set_uid(uid);
  request.set_destination_node(reader);
  request.mutable_source()->set_buffer(range.buffer);
  request.mutable_source()->set_offset_bytes(range.offset);
  request.mutable_source()->set_bytes(range.bytes);
  return stub_->Reserve(Context().get(), request, response);
}

grpc::Status HostilePeer::Start(uint32_t uid, const v1::ReserveResponse& reservation,
                                const std::string& destination, v1::Transfer* started,
                                const std::string& path) {
  v1::StartRequest request;
  request.set_transfer_id(transfer_id_);
  request.set_uid(uid);
  *request.mutable_reservation() = reservation;
  request.mutable_destination()->set_buffer(destination);
  request.mutable_destination()->set_offset_bytes(0);
  request.mutable_policy()->set_path_glob(path);
  return stub_->Start(Context().get(), request, started);
}

v1::Transfer HostilePeer::WaitForEnd(const std::string& id) {
  v1::Transfer seen;
  WaitUntil("transfer " + id + " ends", [&] {
    v1::QueryTransferRequest request;
    request.set_transfer_id(id);
    const grpc::Status answered = stub_->QueryTransfer(Context().get(), request, &seen);
    if (!answered.ok()) throw std::runtime_error(answered.error_message());
    return seen.state() != v1::PENDING && seen.state() != v1::RUNNING;
  });
  return seen;
}

HostileNode::HostileNode(std::string name, std::string uid_domain,
                         std::shared_ptr<grpc::ServerCredentials> credentials)
    : name_(std::move(name)), uid_domain_(std::move(uid_domain)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", std::move(credentials), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("a hostile node cannot listen");
}

HostileNode::~HostileNode() { server_->Shutdown(std::chrono::system_clock::now()); }

void HostileNode::Introduce(v1::Introduction* self) const {
  self->set_node(name_);
  self->set_boot_id("hostile");
  self->set_protocol_min(1);
  self->set_protocol_max(1);
  self->set_version("1");
  self->set_address("127.0.0.1:" + std::to_string(port_));
  self->set_uid_domain(uid_domain_);
  self->set_capabilities_generation(1);
  self->mutable_capabilities();
}

grpc::Status HostileNode::Hello(grpc::ServerContext*, const v1::HelloRequest*,
                                v1::HelloResponse* response) {
  Introduce(response->mutable_self());
  return grpc::Status::OK;
}

}  // namespace onecopy::testing
