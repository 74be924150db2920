#include "daemon/rpc/convert_buffer.h"

#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

constexpr size_t kIpcHandleBytes = 64;

Status CheckFdHandle(uint64_t fd_handle, const Field& at) {
  if (fd_handle != 0) return OkStatus();
  return BadField(at, "names no descriptor; pass one on attach.sock first", reasons::kBadHandle);
}

}  // namespace

Result<engine::BufferInfo> Parse(const v1::Buffer& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.id(), at / "id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.owner(), at / "owner"));
  engine::BufferInfo value;
  value.node = in.node();
  value.name = in.name();
  value.id = in.id();
  value.memory = in.memory();
  value.device = in.device();
  value.bytes = in.bytes();
  value.owner = in.owner();
  value.registered = in.registered();
  ONECOPY_ASSIGN_OR_RETURN(value.create_time, Parse(in.create_time(), at / "create_time"));
  value.transfers = in.transfers();
  return value;
}

void Print(const engine::BufferInfo& value, v1::Buffer* out) {
  out->set_node(ToUtf8(value.node));
  out->set_name(ToUtf8(value.name));
  out->set_id(ToUtf8(value.id));
  out->set_memory(ToUtf8(value.memory));
  out->set_device(ToUtf8(value.device));
  out->set_bytes(value.bytes);
  out->set_owner(ToUtf8(value.owner));
  out->set_registered(value.registered);
  Print(value.create_time, out->mutable_create_time());
  out->set_transfers(value.transfers);
}

Result<engine::Page<engine::BufferInfo>> Parse(const v1::ListBuffersResponse& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.next_page_token(), at / "next_page_token", kMostPageToken));
  engine::Page<engine::BufferInfo> value;
  ONECOPY_ASSIGN_OR_RETURN(
      value.items, ParseEach(in.buffers(), at / "buffers",
                             [](const v1::Buffer& one, const Field& f) { return Parse(one, f); }));
  value.next_token = in.next_page_token();
  return value;
}

void Print(const engine::Page<engine::BufferInfo>& value, v1::ListBuffersResponse* out) {
  for (const engine::BufferInfo& buffer : value.items) Print(buffer, out->add_buffers());
  out->set_next_page_token(ToUtf8(value.next_token));
}

Result<engine::Sum> Parse(const v1::SumBufferResponse& in) {
  ONECOPY_ASSIGN_OR_RETURN(engine::ChecksumResult checksum,
                           Parse(in.checksum(), Field() / "checksum"));
  return engine::Sum{std::move(checksum.algorithm), std::move(checksum.value), in.bytes()};
}

void Print(const engine::Sum& value, v1::SumBufferResponse* out) {
  out->mutable_checksum()->set_algorithm(value.algorithm);
  out->mutable_checksum()->set_value(value.value);
  out->set_bytes(value.bytes);
}

namespace {

Result<engine::GrantInfo> ParseGrant(const v1::Grant& in, const Field& at) {
  for (const auto& [text, name] :
       {std::pair(&in.id(), "id"), std::pair(&in.buffer(), "buffer"), std::pair(&in.to(), "to"),
        std::pair(&in.owner(), "owner"), std::pair(&in.node(), "node")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  engine::GrantInfo value{GrantId(in.id()), in.buffer(), {in.offset_bytes(), in.bytes()},
                          in.to(),          in.read(),   in.write(),
                          std::nullopt,     in.owner(),  in.node()};
  if (in.has_expire_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  }
  return value;
}

}  // namespace

void Print(const engine::GrantInfo& value, v1::Grant* out) {
  out->set_id(ToUtf8(value.id.str()));
  out->set_buffer(ToUtf8(value.buffer));
  out->set_offset_bytes(value.range.offset);
  out->set_bytes(value.range.bytes);
  out->set_to(ToUtf8(value.to));
  out->set_read(value.read);
  out->set_write(value.write);
  if (value.expire_time) Print(*value.expire_time, out->mutable_expire_time());
  out->set_owner(ToUtf8(value.owner));
  out->set_node(ToUtf8(value.node));
}

void Print(const engine::Page<engine::GrantInfo>& value, v1::ListGrantsResponse* out) {
  for (const engine::GrantInfo& grant : value.items) Print(grant, out->add_grants());
  out->set_next_page_token(ToUtf8(value.next_token));
}

Result<engine::Page<engine::GrantInfo>> Parse(const v1::ListGrantsResponse& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.next_page_token(), at / "next_page_token", kMostPageToken));
  engine::Page<engine::GrantInfo> value;
  ONECOPY_ASSIGN_OR_RETURN(value.items, ParseEach(in.grants(), at / "grants", ParseGrant));
  value.next_token = in.next_page_token();
  return value;
}

Result<engine::CreateBufferRequest> Parse(const v1::CreateBufferRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMostRequestId));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  return engine::CreateBufferRequest{in.request_id(), in.name(), in.bytes(), in.memory(),
                                     in.validate_only()};
}

Result<engine::RegisterBufferRequest> Parse(const v1::RegisterBufferRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMostRequestId));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  engine::RegisterBufferRequest value;
  value.request_id = in.request_id();
  value.name = in.name();
  value.bytes = in.bytes();
  value.validate_only = in.validate_only();
  switch (in.memory_case()) {
    case v1::RegisterBufferRequest::kMemfd: {
      const auto& memfd = in.memfd();
      ONECOPY_RETURN_IF_ERROR(CheckFdHandle(memfd.fd_handle(), at / "memfd" / "fd_handle"));
      value.kind = "host";
      value.form = "memfd";
      value.fd_handle = memfd.fd_handle();
      value.offset = memfd.offset_bytes();
      return value;
    }
    case v1::RegisterBufferRequest::kCudaIpc: {
      const auto& ipc = in.cuda_ipc();
      const Field ipc_at = at / "cuda_ipc";
      if (ipc.handle().size() != kIpcHandleBytes) {
        return BadField(ipc_at / "handle",
                        "has " + std::to_string(ipc.handle().size()) +
                            " bytes; a handle of cuIpcGetMemHandle has " +
                            std::to_string(kIpcHandleBytes),
                        reasons::kBadHandle);
      }
      ONECOPY_RETURN_IF_ERROR(CheckText(ipc.device(), ipc_at / "device"));
      value.kind = "cuda";
      value.form = "cuda-ipc";
      value.handle = ipc.handle();
      value.offset = ipc.offset_bytes();
      value.device = ipc.device();
      ONECOPY_RETURN_IF_ERROR(
          CheckText(ipc.dma_buf().refusal(), ipc_at / "dma_buf" / "refusal", kMostText));
      value.dmabuf_fd_handle = ipc.dma_buf().fd_handle();
      value.dmabuf_offset = ipc.dma_buf().offset_bytes();
      value.dmabuf_refusal = ipc.dma_buf().refusal();
      return value;
    }
    case v1::RegisterBufferRequest::kCudaVmm: {
      const auto& vmm = in.cuda_vmm();
      const Field vmm_at = at / "cuda_vmm";
      ONECOPY_RETURN_IF_ERROR(CheckFdHandle(vmm.fd_handle(), vmm_at / "fd_handle"));
      ONECOPY_RETURN_IF_ERROR(CheckText(vmm.device(), vmm_at / "device"));
      value.kind = "cuda";
      value.form = "cuda-vmm";
      value.fd_handle = vmm.fd_handle();
      value.offset = vmm.offset_bytes();
      value.device = vmm.device();
      value.allocation_bytes = vmm.allocation_bytes();
      return value;
    }
    case v1::RegisterBufferRequest::kDmaBuf: {
      const auto& dma_buf = in.dma_buf();
      ONECOPY_RETURN_IF_ERROR(CheckFdHandle(dma_buf.fd_handle(), at / "dma_buf" / "fd_handle"));
      value.kind = "dmabuf";
      value.form = "dmabuf";
      value.fd_handle = dma_buf.fd_handle();
      value.offset = dma_buf.offset_bytes();
      return value;
    }
    case v1::RegisterBufferRequest::MEMORY_NOT_SET:
      break;
  }
  return BadField(at / "memory", "is missing: one of memfd, cuda_ipc, cuda_vmm, dma_buf");
}

Result<std::tuple<std::string, std::string>> Parse(const v1::GetBufferRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(std::string node, ParseName(in.node(), at / "node"));
  ONECOPY_ASSIGN_OR_RETURN(std::string name, ParseName(in.name(), at / "name"));
  return std::tuple(std::move(node), std::move(name));
}

Result<std::tuple<std::string, engine::PageRequest>> Parse(const v1::ListBuffersRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(std::string node, ParseName(in.node(), at / "node"));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), at));
  return std::tuple(std::move(node), std::move(page));
}

Result<std::tuple<std::string, bool>> Parse(const v1::DeleteBufferRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(std::string name, ParseName(in.name(), Field() / "name"));
  return std::tuple(std::move(name), in.force());
}

Result<engine::Endpoint> Parse(const v1::SumBufferRequest& in) {
  const Field at;
  if (!in.has_range()) return BadField(at / "range", "is missing");
  return Parse(in.range(), at / "range");
}

Result<engine::CreateGrantRequest> Parse(const v1::CreateGrantRequest& in) {
  const Field at;
  if (!in.has_range()) return BadField(at / "range", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(in.to(), at / "to"));
  engine::CreateGrantRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.range, Parse(in.range(), at / "range"));
  value.to = in.to();
  value.read = in.read();
  value.write = in.write();
  ONECOPY_ASSIGN_OR_RETURN(value.lifetime,
                           ParseLimit(in.has_lifetime(), in.lifetime(), at / "lifetime"));
  return value;
}

Result<std::tuple<std::string, std::string, engine::PageRequest>> Parse(
    const v1::ListGrantsRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(std::string node, ParseName(in.node(), at / "node"));
  ONECOPY_ASSIGN_OR_RETURN(std::string buffer, ParseName(in.buffer(), at / "buffer"));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), at));
  return std::tuple(std::move(node), std::move(buffer), std::move(page));
}

Result<GrantId> Parse(const v1::DeleteGrantRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(std::string id, ParseName(in.id(), Field() / "id"));
  return GrantId(std::move(id));
}

}  // namespace onecopy::rpc
