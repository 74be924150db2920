#include <utility>

#include "client/lib/calls/wire.h"
#include "client/lib/memory/register_all.h"
#include "client/lib/session/connection.h"
#include "client/lib/session/registered_memory.h"
#include "onecopy/client.h"
#include "transport/os/machine/machine.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/memory/pages.h"

namespace onecopy {

using client::CheckText;
using client::Connection;
using client::Patience;
using client::Session;
using BufferStub = v1::BufferService::Stub;

namespace {

// What was passed over the session's socket counts in that session alone.
Result<BufferInfo> Register(Connection& connection, Session& session,
                            v1::RegisterBufferRequest request) {
  const Result<BufferInfo> info = client::RegisterIn(session, std::move(request));
  if (!info.ok()) return connection.Explain(session, info.status());
  connection.registrations().Add(*info, session.number());
  return info;
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
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection.Current());
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session->attach().PassDescriptor(fd));
  (request.*memory)()->set_fd_handle(handle);
  (request.*memory)()->set_offset_bytes(offset_bytes);
  return Register(connection, *session, std::move(request));
}

client::CallLimit::Time EndOf(std::optional<std::chrono::milliseconds> limit) {
  if (!limit) return {};
  return client::CallLimit::Clock::now() + *limit;
}

// As Connection::Ask; CANCELLED after a requested stop.
template <typename Stub, typename Request, typename Reply>
Result<Reply> AskUntil(Connection& connection,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       const Request& request, Patience patience, const std::stop_token& stop) {
  const Status cancelled(Code::kCancelled, reasons::kCancelled, "cancelled");
  for (bool again = false;; again = true) {
    const Result<client::SessionRef> current = connection.Current(stop);
    if (!current.ok()) return stop.stop_requested() ? cancelled : current.status();
    const client::SessionRef& session = *current;
    grpc::ClientContext context;
    session->Prepare(context, patience);
    const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
    Reply reply;
    const grpc::Status status = (session->stub<Stub>().*method)(&context, request, &reply);
    if (stop.stop_requested()) return cancelled;
    if (status.ok()) return reply;
    const Status failure = session->Decode(status);
    if (!again && session->EndedBy(failure)) continue;
    return connection.Explain(*session, failure);
  }
}

}  // namespace

bool Client::moves_files() const {
  const Result<client::SessionRef> session = connection_->Latest();
  return session.ok() && (*session)->attach().files();
}

Result<Endpoint> Client::PassFile(const std::string& name, int fd, int direct_fd) {
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Current());
  if (!session->attach().files()) {
    return Status(Code::kUnimplemented, reasons::kNotServed,
                  "the onecopyd in " + run_dir() + " cannot move files of its clients",
                  "install the same version of onecopyd and of its clients");
  }
  Endpoint end;
  end.node = node();
  end.file = client::ShownText(name);
  ONECOPY_ASSIGN_OR_RETURN(end.fd_handle, session->attach().PassDescriptor(fd, true));
  if (direct_fd >= 0) {
    ONECOPY_ASSIGN_OR_RETURN(end.direct_fd_handle,
                             session->attach().PassDescriptor(direct_fd, true));
  }
  return end;
}

Result<HostBuffer> Client::CreateHostBuffer(const std::string& name, uint64_t bytes,
                                            HostPages pages) {
  if (bytes == 0) {
    return Status(Code::kInvalidArgument, reasons::kBadSize, "a buffer needs at least one byte");
  }
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, os::SealedMemfd("onecopy", bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd.get(), bytes));
  if (pages == HostPages::kNow) ONECOPY_RETURN_IF_ERROR(os::MakePages(fd, mapping));
  const auto memory = std::make_shared<client::HostMemory>(std::move(fd), std::move(mapping), name);
  ONECOPY_RETURN_IF_ERROR(client::RegisterFirst(*connection_, memory).status());
  return HostBuffer(connection_, memory);
}

Result<BufferInfo> Client::RegisterMemfd(const std::string& name, int fd, uint64_t offset_bytes,
                                         uint64_t bytes) {
  return RegisterFd(*connection_, &v1::RegisterBufferRequest::mutable_memfd, name, fd, offset_bytes,
                    bytes);
}

Result<BufferInfo> Client::RegisterMemory(const std::string& name, void* pointer, uint64_t bytes,
                                          MemoryAccess access) {
  return RegisterAll({{.name = name, .pointer = pointer, .bytes = bytes, .access = access}})[0];
}

void Client::CloseMemory(const std::string& name) {
  if (const auto session = connection_->Latest()) (*session)->own_memory().RemoveBuffer(name);
}

Result<BufferInfo> Client::RegisterDmaBuf(const std::string& name, int fd, uint64_t offset_bytes,
                                          uint64_t bytes) {
  return RegisterFd(*connection_, &v1::RegisterBufferRequest::mutable_dma_buf, name, fd,
                    offset_bytes, bytes);
}

Result<BufferInfo> Client::RegisterCuda(const std::string& name, uintptr_t device_pointer,
                                        uint64_t bytes) {
  auto* const pointer = reinterpret_cast<void*>(device_pointer);
  return RegisterAll({{.name = name, .pointer = pointer, .bytes = bytes, .cuda = true}})[0];
}

std::vector<Result<BufferInfo>> Client::RegisterAll(const std::vector<MemoryToRegister>& memory) {
  return client::RegisterAll(*connection_, memory);
}

Result<std::vector<BufferInfo>> Client::CreateViews(const std::vector<ViewRequest>& views) {
  v1::CreateViewsRequest request;
  std::vector<std::string> memories;
  for (const ViewRequest& view : views) {
    ONECOPY_RETURN_IF_ERROR(CheckText("the view's name", view.name));
    ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", view.range.node));
    ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", view.range.buffer));
    if (view.array) ONECOPY_RETURN_IF_ERROR(CheckText("the array's dtype", view.array->dtype));
    codec::Print(view, request.add_views());
    memories.push_back(view.range.buffer);
  }
  const auto made = connection_->Call(&BufferStub::CreateViews, request, Patience::kQuick);
  if (!made.ok()) return connection_->ExplainNames(made.status(), node(), memories);
  std::vector<BufferInfo> all;
  for (const v1::Buffer& view : made->views()) {
    ONECOPY_ASSIGN_OR_RETURN(BufferInfo info, client::Read(view));
    all.push_back(std::move(info));
  }
  if (all.size() == views.size()) return all;
  return Status(Code::kUnavailable, reasons::kPeerIncompatible,
                "onecopyd answers with " + std::to_string(all.size()) + " views for " +
                    std::to_string(views.size()),
                "install the same version of onecopyd and of its clients");
}

Result<BufferInfo> Client::CreateView(const ViewRequest& view) {
  ONECOPY_ASSIGN_OR_RETURN(std::vector<BufferInfo> made, CreateViews({view}));
  return std::move(made.front());
}

Result<CudaAllocation> Client::FindCudaAllocation(uintptr_t device_pointer, uint64_t bytes) const {
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<const shim::CudaApi> api, connection_->Cuda());
  return shim::FindCudaAllocation(*api, device_pointer, bytes);
}

Result<BufferInfo> Client::GetBuffer(const std::string& node, const std::string& name,
                                     std::stop_token stop,
                                     std::optional<std::chrono::milliseconds> limit) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  v1::GetBufferRequest request;
  request.set_node(node);
  request.set_name(name);
  const client::CallLimit bounded(EndOf(limit));
  const auto buffer =
      AskUntil(*connection_, &BufferStub::GetBuffer, request, Patience::kQuick, stop);
  if (!buffer.ok()) return connection_->ExplainNames(buffer.status(), node, {name});
  return client::Read(*buffer);
}

Result<std::vector<BufferInfo>> Client::ListBuffers(const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::ListBuffersRequest request;
  request.set_node(node);
  return connection_->AskAllPages<BufferInfo>(
      &BufferStub::ListBuffers, std::move(request),
      [](const v1::ListBuffersResponse& page) { return page.buffers(); },
      [](const v1::Buffer& buffer) { return client::Read(buffer); });
}

Status Client::DeleteBuffer(const std::string& name, bool force, const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::DeleteBufferRequest request;
  request.set_name(name);
  request.set_force(force);
  request.set_node(node);
  const Status done =
      connection_->Call(&BufferStub::DeleteBuffer, request, Patience::kQuick).status();
  const Status explained = connection_->ExplainNames(done, node, {name});
  if (!node.empty() && node != this->node()) return explained;
  const bool gone = done.ok() || done.reason() == reasons::kBufferNotFound;
  if (gone) connection_->registrations().Remove(name);
  // Nor may a daemon that has gone have left orders for memory that its owner is about to free.
  if (gone || done.code() == Code::kDeadlineExceeded || done.reason() == reasons::kSessionLost ||
      done.reason() == reasons::kDaemonUnreachable) {
    if (const auto session = connection_->Latest()) (*session)->own_memory().RemoveBuffer(name);
  }
  return explained;
}

Status Client::ReleaseBuffer(const std::string& name, bool force) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", name));
  ONECOPY_ASSIGN_OR_RETURN(const client::SessionRef session, connection_->Latest());
  Status ended = client::EndIn(*session, name, force);
  if (ended.code() != Code::kFailedPrecondition) connection_->registrations().Remove(name);
  return ended;
}

Result<BufferSum> Client::SumBuffer(const Endpoint& range) { return SumBlocks({range, 0}); }

Result<BufferSum> Client::SumBlocks(const SumRequest& request, std::stop_token stop,
                                    std::optional<std::chrono::milliseconds> limit) {
  const Endpoint& range = request.range;
  ONECOPY_RETURN_IF_ERROR(client::CheckEnd("the range", range));
  v1::SumBufferRequest wire;
  codec::Print(range, wire.mutable_range());
  wire.set_block_bytes(request.block_bytes);
  const client::CallLimit bounded(EndOf(limit));
  const auto sum = AskUntil(*connection_, &BufferStub::SumBuffer, wire, Patience::kWorking, stop);
  if (!sum.ok()) return connection_->ExplainNames(sum.status(), range.node, {range.buffer});
  ONECOPY_ASSIGN_OR_RETURN(BufferSum answer, client::Read(*sum));
  if (request.block_bytes == 0) return answer;
  const uint64_t blocks = answer.bytes == 0 ? 0 : (answer.bytes - 1) / request.block_bytes + 1;
  if (answer.blocks.size() == blocks) return answer;
  return Status(Code::kUnimplemented, reasons::kNotServed,
                "the onecopyd of node " + (range.node.empty() ? node() : range.node) +
                    " or of this one cannot sum the blocks of a buffer",
                "install the same version of onecopyd on both nodes");
}

Result<GrantInfo> Client::CreateGrant(const CreateGrantRequest& request) {
  ONECOPY_RETURN_IF_ERROR(client::CheckEnd("the range", request.range));
  ONECOPY_RETURN_IF_ERROR(CheckText("the receiver of the grant", request.to));
  v1::CreateGrantRequest wire;
  codec::Print(request, &wire);
  const auto grant = connection_->Call(&BufferStub::CreateGrant, wire, Patience::kQuick);
  if (!grant.ok()) {
    return connection_->ExplainNames(grant.status(), request.range.node, {request.range.buffer});
  }
  return client::Read(*grant);
}

Result<std::vector<GrantInfo>> Client::ListGrants(const std::string& buffer,
                                                  const std::string& node) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the buffer's name", buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the node's name", node));
  v1::ListGrantsRequest request;
  request.set_buffer(buffer);
  request.set_node(node);
  return connection_->AskAllPages<GrantInfo>(
      &BufferStub::ListGrants, std::move(request),
      [](const v1::ListGrantsResponse& page) { return page.grants(); },
      [](const v1::Grant& grant) { return client::Read(grant); });
}

Status Client::DeleteGrant(const GrantId& id) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the grant's id", id.str()));
  v1::DeleteGrantRequest request;
  request.set_id(id.str());
  return connection_->Call(&BufferStub::DeleteGrant, request, Patience::kQuick).status();
}

}  // namespace onecopy
