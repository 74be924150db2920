// Messages and values in which every field says something.
#pragma once

#include "daemon/rpc/convert/peer.h"
#include "tests/support/catch.h"
#include "tests/support/fill_message.h"
#include "tests/support/sample_messages.h"

// Fields of daemons' messages that follow from others; see sample_messages.h.
namespace onecopy::v1 {

inline void Settle(ReserveRequest* request) {
  SettleRanges(request->mutable_source_ranges(), nullptr);
  for (SourcePart& part : *request->mutable_parts()) SettleRanges(part.mutable_ranges(), nullptr);
}
inline void SettlePlaces(ReserveResponse* reserved) {
  SettleRanges(reserved->mutable_place(), nullptr);
  for (ReservedPart& part : *reserved->mutable_parts()) {
    SettleRanges(part.mutable_place(), nullptr);
  }
}
inline void Settle(ReserveResponse* reserved) { SettlePlaces(reserved); }
inline void Settle(OpenPushRequest* request) { SettlePlaces(request->mutable_reservation()); }
inline void Settle(StartRequest* request) {
  SettlePlaces(request->mutable_reservation());
  SettleRanges(request->mutable_source_ranges(), request->mutable_destination_ranges());
  Settle(request->mutable_series());
  SettleTrace(request);
  for (StartPart& part : *request->mutable_parts()) {
    SettleRanges(part.mutable_source_ranges(), part.mutable_destination_ranges());
    SettleRanges(part.mutable_reservation()->mutable_place(), nullptr);
  }
  // Each to a destination of its own, and asked for together.
  for (int i = 0; i < request->parts_size(); ++i) {
    request->mutable_parts(i)->set_destination(static_cast<uint32_t>(i));
  }
}
inline void Settle(Introduction* self) { Settle(self->mutable_capabilities()); }
inline void Settle(HelloRequest* hello) { Settle(hello->mutable_self()); }
inline void Settle(HelloResponse* hello) { Settle(hello->mutable_self()); }
inline void Settle(OpenRangeResponse* response) {
  for (Step& step : *response->mutable_fill_steps()) step.clear_bytes();
}
inline void Settle(OpenPushResponse* response) { Settle(response->mutable_plan()); }
inline void Settle(PrepareRequest* request) {
  Settle(request->mutable_transfer());
  Settle(request->mutable_series());
}
inline void Settle(ReportRequest* request) { Settle(request->mutable_transfer()); }

}  // namespace onecopy::v1

namespace onecopy::rpc {

using testing::Sample;

// The value that a message stands for, which must be a good one.
template <typename Message>
auto Parsed(const Message& message) {
  auto value = Parse(message);
  REQUIRE_OK(value);
  return std::move(*value);
}

inline TransferInfo SampleTransfer() { return Parsed(Sample<v1::Transfer>()); }
inline BufferInfo SampleBuffer() { return Parsed(Sample<v1::Buffer>()); }

inline GrantInfo SampleGrant() { return Parsed(Sample<v1::Grant>()); }
inline NodeInfo SampleNode() { return Parsed(Sample<v1::Node>()); }
inline ProbeInfo SampleProbe() { return Parsed(Sample<v1::Probe>()); }

// The message that a value is printed as.
template <typename Message>
Message Printed(const auto& value) {
  Message message;
  Print(value, &message);
  return message;
}

}  // namespace onecopy::rpc
