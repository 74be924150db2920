#include <utility>

#include "client/lib/connection.h"
#include "client/lib/register_cuda.h"
#include "client/lib/wire.h"
#include "onecopy/client.h"
#include "transport/os/machine.h"
#include "transport/os/mapping.h"

namespace onecopy {

using client::CheckText;
using client::Connection;
using client::Patience;
using BufferStub = v1::BufferService::Stub;

namespace {

Result<BufferInfo> Register(Connection& connection, v1::RegisterBufferRequest request) {
  request.set_request_id(os::RandomHex(16));
  ONECOPY_ASSIGN_OR_RETURN(const v1::Buffer buffer,
                           connection.Call(connection.buffers(), &BufferStub::RegisterBuffer,
                                           request, Patience::kUnlimited));
  return client::Read(buffer);
}

// `memory`: the part of the request that says what the descriptor is of.
template <typename Memory>
Result<BufferInfo> RegisterFd(Connection& connection,
                              Memory* (v1::RegisterBufferRequest::*memory)(),
                              const std::string& name, int fd, uint64_t offset_bytes,
                              uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  v1::RegisterBufferRequest request;
  request.set_name(name);
  request.set_bytes(bytes);
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, connection.attach().PassDescriptor(fd));
  (request.*memory)()->set_fd_handle(handle);
  (request.*memory)()->set_offset_bytes(offset_bytes);
  return Register(connection, std::move(request));
}

}  // namespace

Result<BufferInfo> Client::CreateBuffer(const CreateBufferRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", request.name));
  ONECOPY_RETURN_IF_ERROR(CheckText("the memory", request.memory));
  ONECOPY_RETURN_IF_ERROR(CheckText("the request id", request.request_id));
  v1::CreateBufferRequest wire;
  codec::Print(request, &wire);
  wire.set_request_id(client::ChosenOr(request.request_id));
  ONECOPY_ASSIGN_OR_RETURN(const v1::Buffer buffer,
                           connection_->Call(connection_->buffers(), &BufferStub::CreateBuffer,
                                             wire, Patience::kUnlimited));
  return client::Read(buffer);
}

Result<HostBuffer> Client::CreateHostBuffer(const std::string& name, uint64_t bytes) {
  if (bytes == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer has at least one byte");
  }
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd fd, os::SealedMemfd("onecopy", bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd.get(), bytes));
  ONECOPY_ASSIGN_OR_RETURN(BufferInfo info,
                           RegisterFd(*connection_, &v1::RegisterBufferRequest::mutable_memfd, name,
                                      fd.get(), 0, bytes));
  const auto owner = std::make_shared<os::Mapping>(std::move(mapping));
  return HostBuffer(connection_, {owner, owner->data()}, std::move(info));
}

Result<BufferInfo> Client::RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                         uint64_t bytes) {
  return RegisterFd(*connection_, &v1::RegisterBufferRequest::mutable_memfd, name, fd, offset_bytes,
                    bytes);
}

Result<BufferInfo> Client::RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                          uint64_t bytes) {
  return RegisterFd(*connection_, &v1::RegisterBufferRequest::mutable_dma_buf, name, fd,
                    offset_bytes, bytes);
}

Result<BufferInfo> Client::RegisterCuda(const std::string& name, uintptr_t device_pointer,
                                        uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const shim::CudaApi> api,
                           shim::LoadCuda(connection_->cuda_library()));
  ONECOPY_ASSIGN_OR_RETURN(const shim::CudaExport exported,
                           shim::ExportCuda(*api, device_pointer, bytes));
  v1::RegisterBufferRequest request;
  request.set_name(name);
  request.set_bytes(bytes);
  ONECOPY_RETURN_IF_ERROR(client::AddCuda(connection_->attach(), exported, request));
  return Register(*connection_, std::move(request));
}

Result<BufferInfo> Client::GetBuffer(const std::string& node, const std::string& name,
                                     std::stop_token stop,
                                     std::optional<std::chrono::milliseconds> limit) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  v1::GetBufferRequest request;
  request.set_node(node);
  request.set_name(name);
  grpc::ClientContext context;
  connection_->Prepare(context, Patience::kQuick);
  if (limit.has_value()) {
    context.set_deadline(std::min(context.deadline(), std::chrono::system_clock::now() + *limit));
  }
  const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
  v1::Buffer buffer;
  const grpc::Status status = connection_->buffers().GetBuffer(&context, request, &buffer);
  if (stop.stop_requested()) {
    return Status(Code::kCancelled, reasons::kCancelled, "cancelled");
  }
  if (!status.ok()) return connection_->Decode(status);
  return client::Read(buffer);
}

Result<std::vector<BufferInfo>> Client::ListBuffers(const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::ListBuffersRequest request;
  request.set_node(node);
  return connection_->CallAllPages<BufferInfo>(
      connection_->buffers(), &BufferStub::ListBuffers, std::move(request),
      [](const v1::ListBuffersResponse& page) { return page.buffers(); },
      [](const v1::Buffer& buffer) { return client::Read(buffer); });
}

Status Client::DeleteBuffer(const std::string& name, bool force) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  v1::DeleteBufferRequest request;
  request.set_name(name);
  request.set_force(force);
  return connection_
      ->Call(connection_->buffers(), &BufferStub::DeleteBuffer, request, Patience::kUnlimited)
      .status();
}

Result<BufferSum> Client::SumBuffer(const Endpoint& range) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", range.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", range.buffer));
  v1::SumBufferRequest request;
  codec::Print(range, request.mutable_range());
  ONECOPY_ASSIGN_OR_RETURN(const v1::SumBufferResponse sum,
                           connection_->Call(connection_->buffers(), &BufferStub::SumBuffer,
                                             request, Patience::kUnlimited));
  return client::Read(sum);
}

Result<GrantInfo> Client::CreateGrant(const CreateGrantRequest& request) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", request.range.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", request.range.buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the receiver of the grant", request.to));
  v1::CreateGrantRequest wire;
  codec::Print(request, &wire);
  ONECOPY_ASSIGN_OR_RETURN(
      const v1::Grant grant,
      connection_->Call(connection_->buffers(), &BufferStub::CreateGrant, wire, Patience::kQuick));
  return client::Read(grant);
}

Result<std::vector<GrantInfo>> Client::ListGrants(const std::string& buffer,
                                                  const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::ListGrantsRequest request;
  request.set_buffer(buffer);
  request.set_node(node);
  return connection_->CallAllPages<GrantInfo>(
      connection_->buffers(), &BufferStub::ListGrants, std::move(request),
      [](const v1::ListGrantsResponse& page) { return page.grants(); },
      [](const v1::Grant& grant) { return client::Read(grant); });
}

Status Client::DeleteGrant(const GrantId& id) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the grant's id", id.str()));
  v1::DeleteGrantRequest request;
  request.set_id(id.str());
  return connection_
      ->Call(connection_->buffers(), &BufferStub::DeleteGrant, request, Patience::kUnlimited)
      .status();
}

}  // namespace onecopy
