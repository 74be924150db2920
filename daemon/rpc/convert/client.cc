#include "daemon/rpc/convert/client.h"

#include <utility>

#include "transport/core/contracts/import_request.h"

namespace onecopy::rpc {
namespace {

constexpr size_t kIpcHandleBytes = 64;

Status CheckFdHandle(uint64_t fd_handle, const Field& at) {
  if (fd_handle != 0) return OkStatus();
  return BadField(at, "does not name a descriptor; send one on attach.sock first",
                  reasons::kBadHandle);
}

template <typename Value, typename List>
Result<engine::Page<Value>> ParseList(const List& items, std::string_view name,
                                      const std::string& next_token) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(next_token, at / "next_page_token", codec::kMaxPageToken));
  engine::Page<Value> page;
  const auto parse = [](const auto& one, const Field& field) { return Parse(one, field); };
  ONECOPY_ASSIGN_OR_RETURN(page.items, ParseEach(items, at / name, parse));
  page.next_token = next_token;
  return page;
}

}  // namespace

Result<engine::PageRequest> ParsePage(int32_t size, const std::string& token, const Field& at) {
  if (size < 0) return BadField(at / "page_size", "is negative");
  ONECOPY_RETURN_IF_ERROR(CheckText(token, at / "page_token", codec::kMaxPageToken));
  return engine::PageRequest{size, token};
}

// The columns that a client pairs become what the engine works with, here rather than on its
// thread: there may be tens of thousands.
Result<std::tuple<TransferRequest, RangeGroups>> Parse(const v1::CreateTransferRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(TransferRequest request, codec::ParseWithoutRanges(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(codec::AskedRanges asked, codec::ParseRanges(in, Field()));
  const size_t sources = request.more_sources.size() + 1;
  const size_t destinations = request.more_destinations.size() + 1;
  RangeGroups groups;
  if (!asked.equal.sources.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(
        groups, GroupRanges(std::move(asked.equal), sources, destinations, in.asked_ranges()));
  } else if (!asked.pairs.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(groups,
                             GroupRanges(asked.pairs, sources, destinations, in.asked_ranges()));
  }
  return std::tuple(std::move(request), std::move(groups));
}

Result<TransferId> Parse(const v1::GetTransferRequest& in) {
  return ParseTransferId(in.id(), Field() / "id");
}

Result<engine::PageRequest> Parse(const v1::ListTransfersRequest& in) {
  return ParsePage(in.page_size(), in.page_token(), Field());
}

Result<TransferId> Parse(const v1::WatchTransferRequest& in) {
  return ParseTransferId(in.id(), Field() / "id");
}

Result<TransferId> Parse(const v1::CancelTransferRequest& in) {
  return ParseTransferId(in.id(), Field() / "id");
}

void Print(const engine::Page<TransferInfo>& value, v1::ListTransfersResponse* out) {
  for (const TransferInfo& transfer : value.items) Print(transfer, out->add_transfers());
  out->set_next_page_token(value.next_token);
}

Result<engine::RegisterBufferRequest> Parse(const v1::RegisterBufferRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", codec::kMaxRequestId));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  engine::RegisterBufferRequest value;
  value.request_id = in.request_id();
  value.name = in.name();
  value.bytes = in.bytes();
  value.validate_only = in.validate_only();
  value.keep_arrivals = in.keep_arrivals();
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
          CheckText(ipc.dma_buf().refusal(), ipc_at / "dma_buf" / "refusal", codec::kMaxText));
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
      if (vmm.more_size() >= static_cast<int>(kMaxAllocations)) {
        return BadField(vmm_at / "more", "are too many");
      }
      for (const auto& one : vmm.more()) {
        ONECOPY_RETURN_IF_ERROR(CheckFdHandle(one.fd_handle(), vmm_at / "more" / "fd_handle"));
        value.more.push_back({one.fd_handle(), one.bytes()});
      }
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
    case v1::RegisterBufferRequest::kProcess:
      value.kind = kProcessKind;
      value.form = in.process().gpu() ? kProcessGpuKind : kProcessKind;
      value.region = in.process().region();
      value.read_only = in.process().read_only();
      return value;
    case v1::RegisterBufferRequest::MEMORY_NOT_SET:
      break;
  }
  return BadField(at / "memory", "is missing: one of memfd, cuda_ipc, cuda_vmm, dma_buf, process");
}

Result<std::vector<ViewRequest>> Parse(const v1::CreateViewsRequest& in) {
  const Field whole;
  const Field at = whole / "views";
  if (in.views().empty()) return BadField(at, "is missing: 1 to " + std::to_string(kMaxBuffers));
  if (static_cast<size_t>(in.views().size()) > kMaxBuffers) {
    return BadField(at, "has more than " + std::to_string(kMaxBuffers) + " views");
  }
  return ParseEach(in.views(), at,
                   [](const v1::ViewRequest& one, const Field& of) { return Parse(one, of); });
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

Result<std::tuple<std::string, std::string, bool>> Parse(const v1::DeleteBufferRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(std::string node, ParseName(in.node(), at / "node"));
  ONECOPY_ASSIGN_OR_RETURN(std::string name, ParseName(in.name(), at / "name"));
  return std::tuple(std::move(node), std::move(name), in.force());
}

Result<SumRequest> Parse(const v1::SumBufferRequest& in) {
  const Field at;
  if (!in.has_range()) return BadField(at / "range", "is missing");
  ONECOPY_ASSIGN_OR_RETURN(Endpoint range, Parse(in.range(), at / "range"));
  return SumRequest{std::move(range), in.block_bytes()};
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

Result<std::string> Parse(const v1::WatchArrivalsRequest& in) {
  return ParseName(in.buffer(), Field() / "buffer");
}

Result<std::tuple<uint64_t, uint64_t>> Parse(const v1::AcknowledgeArrivalsRequest& in) {
  return std::tuple(in.watch(), in.count());
}

Result<std::string> Parse(const v1::GetNodeRequest& in) {
  return ParseName(in.name(), Field() / "name");
}

Result<engine::PageRequest> Parse(const v1::ListNodesRequest& in) {
  return ParsePage(in.page_size(), in.page_token(), Field());
}

Result<std::string> Parse(const v1::ProbeNodeRequest& in) {
  return ParseName(in.name(), Field() / "name");
}

Result<std::tuple<std::string, engine::PageRequest>> Parse(const v1::ListExportsRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(std::string node, ParseName(in.node(), at / "node"));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), at));
  return std::tuple(std::move(node), std::move(page));
}

Result<std::string> Parse(const v1::ReleaseDeviceRequest& in) {
  return ParseName(in.device(), Field() / "device");
}

Result<std::string> Parse(const v1::SetLogLevelRequest& in) {
  return ParseName(in.level(), Field() / "level");
}

Result<std::tuple<bool, bool>> Parse(const v1::SetDrainingRequest& in) {
  return std::tuple(in.draining(), in.wait());
}

void Print(const std::vector<BufferInfo>& value, v1::CreateViewsResponse* out) {
  for (const BufferInfo& view : value) Print(view, out->add_views());
}

Result<engine::Page<BufferInfo>> Parse(const v1::ListBuffersResponse& in) {
  return ParseList<BufferInfo>(in.buffers(), "buffers", in.next_page_token());
}

void Print(const engine::Page<BufferInfo>& value, v1::ListBuffersResponse* out) {
  for (const BufferInfo& buffer : value.items) Print(buffer, out->add_buffers());
  out->set_next_page_token(value.next_token);
}

Result<engine::Page<GrantInfo>> Parse(const v1::ListGrantsResponse& in) {
  return ParseList<GrantInfo>(in.grants(), "grants", in.next_page_token());
}

void Print(const engine::Page<GrantInfo>& value, v1::ListGrantsResponse* out) {
  for (const GrantInfo& grant : value.items) Print(grant, out->add_grants());
  out->set_next_page_token(value.next_token);
}

Result<engine::Page<ExportInfo>> Parse(const v1::ListExportsResponse& in) {
  return ParseList<ExportInfo>(in.exports(), "exports", in.next_page_token());
}

void Print(const engine::Page<ExportInfo>& value, v1::ListExportsResponse* out) {
  for (const ExportInfo& one : value.items) Print(one, out->add_exports());
  out->set_next_page_token(value.next_token);
}

void Print(const engine::Page<NodeInfo>& value, v1::ListNodesResponse* out) {
  for (const NodeInfo& node : value.items) {
    v1::Node* node_out = out->add_nodes();
    Print(node, node_out);
    node_out->clear_capabilities();
  }
  out->set_next_page_token(value.next_token);
}

void Print(const std::vector<ProbeInfo>& value, v1::ProbeNodeResponse* out) {
  for (const ProbeInfo& probe : value) Print(probe, out->add_probes());
}

void Print(const std::string& previous_level, v1::SetLogLevelResponse* out) {
  out->set_previous_level(previous_level);
}

void Print(uint64_t running, v1::SetDrainingResponse* out) { out->set_running(running); }

}  // namespace onecopy::rpc
