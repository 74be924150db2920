// The services of FakeDaemon: buffers, grants and nodes.
#include <algorithm>
#include <cstring>

#include "onecopy/reasons.h"
#include "tests/unit/client/fake_daemon.h"

namespace onecopy::testing {
namespace {

grpc::Status NoBuffer(const std::string& name) {
  return ToGrpc(Status(Code::kNotFound, reasons::kBufferNotFound, "there is no buffer " + name,
                       "see `onecopy buffer ls`"));
}

// The page of `all` that the request asks for; tokens are indexes.
template <typename Value, typename Request, typename Reply, typename Adder>
void Page(const std::vector<Value>& all, const Request& request, int most, Reply* reply,
          Adder add) {
  size_t at = request.page_token().empty() ? 0 : std::stoul(request.page_token());
  const auto size = static_cast<size_t>(std::min(request.page_size(), most));
  for (size_t i = 0; i < size && at < all.size(); ++i) add(all[at++]);
  if (at < all.size()) reply->set_next_page_token(std::to_string(at));
}

}  // namespace

FakeDaemon::Memory* FakeDaemon::Find(const std::string& node, const std::string& name) {
  const std::string on = node.empty() ? "east" : node;
  for (const auto& buffer : buffers_) {
    if (buffer->info.node() == on && (buffer->info.name() == name || buffer->info.id() == name)) {
      return buffer.get();
    }
  }
  return nullptr;
}

v1::Buffer FakeDaemon::Add(std::unique_ptr<Memory> memory, const std::string& name) {
  const uint64_t number = next_buffer_++;
  memory->info.set_name(name.empty() ? "auto-" + std::to_string(number) : name);
  memory->info.set_id(std::to_string(number) + ".1");
  memory->info.set_owner("1000@" + memory->info.node());
  if (memory->info.memory().empty()) memory->info.set_memory("host");
  memory->info.mutable_create_time()->set_seconds(1'700'000'000);
  buffers_.push_back(std::move(memory));
  return buffers_.back()->info;
}

grpc::Status FakeDaemon::CreateBuffer(grpc::ServerContext* context,
                                      const v1::CreateBufferRequest* request, v1::Buffer* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  if (Find("", request->name()) != nullptr) {
    return ToGrpc(Status(Code::kAlreadyExists, reasons::kNameTaken, "there is one already"));
  }
  auto memory = std::make_unique<Memory>();
  memory->own.resize(request->bytes());
  memory->info.set_node("east");
  memory->info.set_bytes(request->bytes());
  memory->info.set_memory(request->memory().substr(0, request->memory().find(':')));
  if (memory->info.memory() == "cuda") memory->info.set_device("GPU-5f");
  *reply = Add(std::move(memory), request->name());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::RegisterBuffer(grpc::ServerContext* context,
                                        const v1::RegisterBufferRequest* request,
                                        v1::Buffer* reply) {
  std::string token;
  if (const auto status = Check(context, &token); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  last_registration_ = *request;
  auto memory = std::make_unique<Memory>();
  memory->info.set_node("east");
  memory->info.set_bytes(request->bytes());
  memory->info.set_registered(true);
  memory->session = token;
  if (request->has_memfd()) {
    const auto deposit = sessions_[token].deposits.extract(request->memfd().fd_handle());
    memory->offset = request->memfd().offset_bytes();
    auto mapping = deposit.empty()
                       ? Status(Code::kInvalidArgument, reasons::kBadHandle, "no fd")
                       : os::MapShared(deposit.mapped().get(), memory->offset + request->bytes());
    if (!mapping.ok()) return ToGrpc(mapping.status());
    memory->mapping = std::move(*mapping);
  } else {
    memory->own.resize(request->bytes());
    memory->info.set_memory("cuda");
    memory->info.set_device(request->has_cuda_ipc() ? request->cuda_ipc().device()
                                                    : request->cuda_vmm().device());
  }
  *reply = Add(std::move(memory), request->name());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::GetBuffer(grpc::ServerContext* context,
                                   const v1::GetBufferRequest* request, v1::Buffer* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const Memory* memory = Find(request->node(), request->name());
  if (memory == nullptr) return NoBuffer(request->name());
  *reply = memory->info;
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ListBuffers(grpc::ServerContext* context,
                                     const v1::ListBuffersRequest* request,
                                     v1::ListBuffersResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  std::vector<v1::Buffer> all;
  for (const auto& buffer : buffers_) {
    if (buffer->info.node() == (request->node().empty() ? "east" : request->node())) {
      all.push_back(buffer->info);
    }
  }
  Page(all, *request, options_.page_size, reply,
       [&](const v1::Buffer& buffer) { *reply->add_buffers() = buffer; });
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::DeleteBuffer(grpc::ServerContext* context,
                                      const v1::DeleteBufferRequest* request,
                                      google::protobuf::Empty*) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const Memory* memory = Find("", request->name());
  if (memory == nullptr) return NoBuffer(request->name());
  std::erase_if(buffers_, [&](const auto& buffer) { return buffer.get() == memory; });
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::SumBuffer(grpc::ServerContext* context,
                                   const v1::SumBufferRequest* request,
                                   v1::SumBufferResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  v1::Endpoint range = request->range();
  const Memory* memory = Find(range.node(), range.buffer());
  if (memory == nullptr) return NoBuffer(range.buffer());
  if (const auto error = Complete(range, 0); error.has_value()) return ToGrpc(*error);
  reply->mutable_checksum()->set_algorithm("xxh3-128");
  reply->mutable_checksum()->set_value("00112233445566778899aabbccddeeff");
  reply->set_bytes(range.bytes());
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::CreateGrant(grpc::ServerContext* context,
                                     const v1::CreateGrantRequest* request, v1::Grant* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  v1::Endpoint range = request->range();
  if (Find(range.node(), range.buffer()) == nullptr) return NoBuffer(range.buffer());
  if (const auto error = Complete(range, 0); error.has_value()) return ToGrpc(*error);
  v1::Grant grant;
  grant.set_id("g" + std::to_string(grants_.size() + 1));
  grant.set_buffer(range.buffer());
  grant.set_offset_bytes(range.offset_bytes());
  grant.set_bytes(range.bytes());
  grant.set_to(request->to());
  grant.set_read(request->read());
  grant.set_write(request->write());
  if (request->has_lifetime()) {
    grant.mutable_expire_time()->set_seconds(1'700'000'000 + request->lifetime().seconds());
  }
  grants_[grant.id()] = grant;
  *reply = grant;
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ListGrants(grpc::ServerContext* context,
                                    const v1::ListGrantsRequest* request,
                                    v1::ListGrantsResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  std::vector<v1::Grant> all;
  for (const auto& [id, grant] : grants_) {
    if (request->buffer().empty() || request->buffer() == grant.buffer()) all.push_back(grant);
  }
  Page(all, *request, options_.page_size, reply,
       [&](const v1::Grant& grant) { *reply->add_grants() = grant; });
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::DeleteGrant(grpc::ServerContext* context,
                                     const v1::DeleteGrantRequest* request,
                                     google::protobuf::Empty*) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  if (grants_.erase(request->id()) == 1) return grpc::Status::OK;
  return ToGrpc(Status(Code::kNotFound, reasons::kGrantNotFound, "no grant " + request->id()));
}

grpc::Status FakeDaemon::GetNode(grpc::ServerContext* context, const v1::GetNodeRequest* request,
                                 v1::Node* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  reply->set_name(request->name().empty() ? "east" : request->name());
  reply->set_self(reply->name() == "east");
  reply->set_state(v1::CONNECTED);
  reply->set_address("127.0.0.1:7701");
  reply->set_boot_id("b00t");
  reply->set_protocol_min(1);
  reply->set_protocol_max(2);
  reply->set_version("9.9.9");
  reply->set_uid_domain("lab");
  reply->mutable_since()->set_seconds(1'700'000'000);
  v1::Capabilities& capabilities = *reply->mutable_capabilities();
  capabilities.set_host("h0st");
  v1::MemoryCapability& gpu = *capabilities.add_memories();
  gpu.set_kind("cuda");
  gpu.set_device("GPU-5f");
  gpu.set_name("NVIDIA H200");
  gpu.set_address("0000:18:00.0");
  gpu.set_ordinal(0);
  gpu.set_total_bytes(uint64_t{141} << 30);
  gpu.add_direct_peers("GPU-6a");
  gpu.mutable_viability()->set_viable(false);
  gpu.mutable_viability()->set_reason("DRIVER_TOO_OLD");
  gpu.mutable_viability()->set_detail("driver 12.2");
  gpu.mutable_viability()->set_remedy("install driver 12.4 or newer");
  (*gpu.mutable_attributes())["compute_capability"] = "9.0";
  v1::LinkCapability& link = *capabilities.add_links();
  link.set_name("tcp");
  link.set_version("1");
  link.mutable_viability()->set_viable(true);
  v1::NicCapability& nic = *link.add_nics();
  nic.set_name("lo");
  nic.set_address("127.0.0.1");
  nic.set_fabric("loopback");
  nic.set_bytes_per_second(1'000'000'000);
  nic.mutable_viability()->set_viable(true);
  v1::NicMemory& reach = *nic.add_memories();
  reach.set_kind("host");
  reach.mutable_viability()->set_viable(true);
  v1::StoreCapability& store = *capabilities.add_stores();
  store.set_name("posix");
  store.mutable_viability()->set_viable(true);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ProbeNode(grpc::ServerContext* context,
                                   const v1::ProbeNodeRequest* request,
                                   v1::ProbeNodeResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  v1::Probe& all = *reply->add_probes();
  all.set_node(request->name().empty() ? "west" : request->name());
  all.set_link("verbs");
  all.set_source_memory("cuda");
  all.set_source_device("GPU-a");
  all.set_destination_memory("host");
  all.mutable_viability()->set_viable(true);
  all.set_bytes_per_second(47e9);
  all.set_latency_seconds(3e-6);
  all.mutable_time()->set_seconds(1'700'000'000);
  all.mutable_expire_time()->set_seconds(1'700'000'600);
  v1::Probe& pair = *reply->add_probes();
  pair = all;
  pair.set_source_nic("mlx5_0");
  pair.set_destination_nic("mlx5_1");
  pair.set_bytes_per_second(0);
  pair.mutable_viability()->set_viable(false);
  pair.mutable_viability()->set_reason("NIC_UNREACHABLE");
  pair.mutable_viability()->set_detail("transport retry counter exceeded");
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ListNodes(grpc::ServerContext* context,
                                   const v1::ListNodesRequest* request,
                                   v1::ListNodesResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  std::vector<v1::Node> all(2);
  all[0].set_name("east");
  all[0].set_self(true);
  all[0].set_state(v1::CONNECTED);
  all[1].set_name("west");
  all[1].set_state(v1::DISCONNECTED);
  all[1].set_reason("PEER_DOWN");
  all[1].set_detail("connection refused");
  Page(all, *request, options_.page_size, reply,
       [&](const v1::Node& node) { *reply->add_nodes() = node; });
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ReleaseDevice(grpc::ServerContext* context,
                                       const v1::ReleaseDeviceRequest* request,
                                       google::protobuf::Empty*) {
  if (const auto status = Check(context); !status.ok()) return status;
  if (request->device() == "cuda:0") return grpc::Status::OK;
  return ToGrpc(Status(Code::kNotFound, reasons::kDeviceNotFound, "no such GPU"));
}

grpc::Status FakeDaemon::SetLogLevel(grpc::ServerContext* context,
                                     const v1::SetLogLevelRequest* request,
                                     v1::SetLogLevelResponse* reply) {
  if (const auto status = Check(context); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  reply->set_previous_level(level_);
  level_ = request->level();
  return grpc::Status::OK;
}

}  // namespace onecopy::testing
