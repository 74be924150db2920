// Buffers and grants; see convert_common.h.
#pragma once

#include <tuple>

#include "daemon/rpc/convert_common.h"
#include "onecopy/v1/buffer.pb.h"

namespace onecopy::rpc {

Result<engine::BufferInfo> Parse(const v1::Buffer& in, const Field& at);
void Print(const engine::BufferInfo& value, v1::Buffer* out);
Result<engine::Page<engine::BufferInfo>> Parse(const v1::ListBuffersResponse& in);
void Print(const engine::Page<engine::BufferInfo>& value, v1::ListBuffersResponse* out);
Result<engine::Sum> Parse(const v1::SumBufferResponse& in);
void Print(const engine::Sum& value, v1::SumBufferResponse* out);
void Print(const engine::GrantInfo& value, v1::Grant* out);
Result<engine::Page<engine::GrantInfo>> Parse(const v1::ListGrantsResponse& in);
void Print(const engine::Page<engine::GrantInfo>& value, v1::ListGrantsResponse* out);

// Requests of BufferService, as the arguments of ClientApi's methods.
Result<engine::CreateBufferRequest> Parse(const v1::CreateBufferRequest& in);
Result<engine::RegisterBufferRequest> Parse(const v1::RegisterBufferRequest& in);
Result<std::tuple<std::string, std::string>> Parse(const v1::GetBufferRequest& in);
Result<std::tuple<std::string, engine::PageRequest>> Parse(const v1::ListBuffersRequest& in);
Result<std::tuple<std::string, bool>> Parse(const v1::DeleteBufferRequest& in);
Result<engine::Endpoint> Parse(const v1::SumBufferRequest& in);
Result<engine::CreateGrantRequest> Parse(const v1::CreateGrantRequest& in);
Result<std::tuple<std::string, std::string, engine::PageRequest>> Parse(
    const v1::ListGrantsRequest& in);
Result<GrantId> Parse(const v1::DeleteGrantRequest& in);

}  // namespace onecopy::rpc
