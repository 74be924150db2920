// What clients ask beside the values that everybody shares (proto/codec/codec.h has those):
// requests as the arguments of ClientApi's methods, and pages of lists. Nobody is trusted to fill a
// message in well, so that all is read strictly.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "daemon/engine/api/types.h"
#include "onecopy/v1/arrival.pb.h"
#include "onecopy/v1/buffer.pb.h"
#include "onecopy/v1/node.pb.h"
#include "onecopy/v1/transfer.pb.h"
#include "proto/codec/codec.h"
#include "transport/core/ranges/range_groups.h"

namespace onecopy::rpc {

using codec::BadField;
using codec::CheckCount;
using codec::CheckText;
using codec::Field;
using codec::Parse;
using codec::ParseEach;
using codec::ParseName;
using codec::ParseTransferId;
using codec::Print;

// A message that stands for a value by itself.
template <typename Message>
auto Parse(const Message& in) -> decltype(codec::Parse(in, Field())) {
  return codec::Parse(in, Field());
}

Result<engine::PageRequest> ParsePage(int32_t size, const std::string& token, const Field& at);

// TransferService
Result<std::tuple<TransferRequest, RangeGroups>> Parse(const v1::CreateTransferRequest& in);
Result<TransferId> Parse(const v1::GetTransferRequest& in);
Result<engine::PageRequest> Parse(const v1::ListTransfersRequest& in);
Result<TransferId> Parse(const v1::WatchTransferRequest& in);
Result<TransferId> Parse(const v1::CancelTransferRequest& in);
void Print(const engine::Page<TransferInfo>& value, v1::ListTransfersResponse* out);

// BufferService
Result<engine::RegisterBufferRequest> Parse(const v1::RegisterBufferRequest& in);
Result<std::vector<ViewRequest>> Parse(const v1::CreateViewsRequest& in);
Result<std::tuple<std::string, std::string>> Parse(const v1::GetBufferRequest& in);
Result<std::tuple<std::string, engine::PageRequest>> Parse(const v1::ListBuffersRequest& in);
Result<std::tuple<std::string, std::string, bool>> Parse(const v1::DeleteBufferRequest& in);
Result<SumRequest> Parse(const v1::SumBufferRequest& in);
Result<std::tuple<std::string, std::string, engine::PageRequest>> Parse(
    const v1::ListGrantsRequest& in);
Result<GrantId> Parse(const v1::DeleteGrantRequest& in);
Result<engine::Page<BufferInfo>> Parse(const v1::ListBuffersResponse& in);
Result<engine::Page<GrantInfo>> Parse(const v1::ListGrantsResponse& in);
void Print(const std::vector<BufferInfo>& value, v1::CreateViewsResponse* out);
void Print(const engine::Page<BufferInfo>& value, v1::ListBuffersResponse* out);
void Print(const engine::Page<GrantInfo>& value, v1::ListGrantsResponse* out);

// ArrivalService
Result<std::string> Parse(const v1::WatchArrivalsRequest& in);
Result<std::tuple<uint64_t, uint64_t>> Parse(const v1::AcknowledgeArrivalsRequest& in);

// NodeService. A list of nodes is printed without their capabilities.
Result<std::string> Parse(const v1::GetNodeRequest& in);
Result<engine::PageRequest> Parse(const v1::ListNodesRequest& in);
Result<std::string> Parse(const v1::ProbeNodeRequest& in);
Result<std::tuple<std::string, engine::PageRequest>> Parse(const v1::ListExportsRequest& in);
Result<engine::Page<ExportInfo>> Parse(const v1::ListExportsResponse& in);
Result<std::string> Parse(const v1::ReleaseDeviceRequest& in);
Result<std::string> Parse(const v1::SetLogLevelRequest& in);
Result<std::tuple<bool, bool>> Parse(const v1::SetDrainingRequest& in);
void Print(const engine::Page<NodeInfo>& value, v1::ListNodesResponse* out);
void Print(const engine::Page<ExportInfo>& value, v1::ListExportsResponse* out);
void Print(const std::vector<ProbeInfo>& value, v1::ProbeNodeResponse* out);
void Print(const std::string& previous_level, v1::SetLogLevelResponse* out);
void Print(uint64_t running, v1::SetDrainingResponse* out);

}  // namespace onecopy::rpc
