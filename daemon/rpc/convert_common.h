// onecopy.v1's words in the engine's, and back. Parse checks what it reads and names the field that
// is wrong; Print cannot fail.
#pragma once

#include "daemon/engine/api/types.h"
#include "daemon/rpc/fields.h"
#include "onecopy/v1/common.pb.h"
#include "transport/core/refusal.h"

namespace onecopy::rpc {

Result<engine::Endpoint> Parse(const v1::Endpoint& in, const Field& at);
Result<plan::Policy> Parse(const v1::Policy& in, const Field& at);
Result<engine::ExecutedStep> Parse(const v1::Step& in, const Field& at);
Result<Refusal> Parse(const v1::Refusal& in, const Field& at);
// Which ends are staged is not in the message: only the steps say so.
Result<plan::Plan> Parse(const v1::Plan& in, const Field& at);
Result<engine::Receipt> Parse(const v1::Receipt& in, const Field& at);
Result<engine::ChecksumResult> Parse(const v1::Checksum& in, const Field& at);

void Print(const engine::Endpoint& value, v1::Endpoint* out);
void Print(const plan::Policy& value, v1::Policy* out);
void Print(const engine::ExecutedStep& value, v1::Step* out);
void Print(const Refusal& value, v1::Refusal* out);
void Print(const plan::Plan& value, v1::Plan* out);
// `bytes` is the transfer's payload, from which the rate follows.
void Print(const engine::Receipt& value, uint64_t bytes, v1::Receipt* out);

// The name of a node, a buffer or whatever else a request names.
Result<std::string> ParseName(const std::string& name, const Field& at);
Result<engine::PageRequest> ParsePage(int32_t size, const std::string& token, const Field& at);
void PrintPage(const engine::PageRequest& page, auto* out) {
  out->set_page_size(page.size);
  out->set_page_token(page.token);
}

}  // namespace onecopy::rpc
