// Messages of onecopy.v1 in which every field says something, and those agree that must.
#pragma once

#include <array>

#include "onecopy/v1/arrival.pb.h"
#include "onecopy/v1/buffer.pb.h"
#include "onecopy/v1/node.pb.h"
#include "onecopy/v1/transfer.pb.h"
#include "tests/support/fill_message.h"

// Fields that follow from others; in the messages' own namespace, where Sample finds them.
namespace onecopy::v1 {

// A traceparent, of which one is as good as another.
template <typename Message>
void SettleTrace(Message* message) {
  message->set_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
}
inline void Settle(Plan* plan) {
  plan->set_copies(static_cast<uint32_t>(plan->steps_size()));
  for (Step& step : *plan->mutable_steps()) step.clear_bytes();
}
inline void Settle(Receipt* receipt) {
  receipt->set_copies(static_cast<uint32_t>(receipt->steps_size()));
}
inline void Settle(Transfer* transfer) {
  Settle(transfer->mutable_plan());
  Settle(transfer->mutable_receipt());
  SettleTrace(transfer);
}
// Strided ranges, of the same sizes on both sides.
inline void SettleRanges(Ranges* source, Ranges* destination) {
  const auto set = [](Ranges* ranges, std::array<uint64_t, 4> first,
                      std::array<uint64_t, 4> second) {
    ranges->Clear();
    for (const auto& [offset, bytes, stride, count] : {first, second}) {
      ranges->add_offset_bytes(offset);
      ranges->add_bytes(bytes);
      ranges->add_stride_bytes(stride);
      ranges->add_count(count);
    }
  };
  set(source, {100, 4, 16, 3}, {300, 8, 24, 2});
  if (destination != nullptr) set(destination, {500, 6, 10, 2}, {900, 4, 12, 4});
}
inline void Settle(CreateTransferRequest* request) {
  SettleRanges(request->mutable_source_ranges(), request->mutable_destination_ranges());
  for (const uint32_t buffer : {1U, 0U}) request->mutable_source_ranges()->add_buffer(buffer);
  request->mutable_destination_ranges()->add_buffer(1);  // for both
  SettleTrace(request);
  request->clear_asked_ranges();  // of the client library's folding, and no part of the value
}
inline void Settle(OpenSeriesRequest* request) { SettleTrace(request); }
// Two devices make one pair.
inline void Settle(Capabilities* capabilities) {
  capabilities->mutable_topology()->mutable_distances()->Truncate(1);
}
inline void Settle(Node* node) { Settle(node->mutable_capabilities()); }
inline void Settle(SumBufferResponse* sum) { sum->mutable_checksum()->clear_verified(); }

}  // namespace onecopy::v1

namespace onecopy::testing {

template <typename Message>
Message Sample() {
  Message message;
  Fill(&message);
  if constexpr (requires { Settle(&message); }) Settle(&message);
  return message;
}

}  // namespace onecopy::testing
