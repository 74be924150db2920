// Messages and values in which every field says something.
#pragma once

#include <array>

#include "daemon/rpc/convert_peer.h"
#include "tests/support/catch.h"
#include "tests/support/fill_message.h"

namespace onecopy::rpc {

// Fields that follow from others.
inline void Settle(v1::Plan* plan) {
  plan->set_copies(static_cast<uint32_t>(plan->steps_size()));
  for (v1::Step& step : *plan->mutable_steps()) step.clear_bytes();
}
inline void Settle(v1::Transfer* transfer) {
  Settle(transfer->mutable_plan());
  v1::Receipt& receipt = *transfer->mutable_receipt();
  receipt.set_copies(static_cast<uint32_t>(receipt.steps_size()));
  const bool all = transfer->state() == v1::SUCCEEDED;
  const uint64_t moved = all ? transfer->bytes() : transfer->bytes_done();
  receipt.set_bytes_per_second(static_cast<double>(moved) / receipt.seconds());
}
// Strided ranges, of the same sizes on both sides.
inline void SettleRanges(v1::Ranges* source, v1::Ranges* destination) {
  const auto set = [](v1::Ranges* ranges, std::array<uint64_t, 4> first,
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
  if (destination != nullptr) set(destination, {500, 6, 10, 2}, {900, 4, 10, 4});
}
inline void Settle(v1::ReserveRequest* request) {
  SettleRanges(request->mutable_source_ranges(), nullptr);
}
inline void Settle(v1::StartRequest* request) {
  SettleRanges(request->mutable_source_ranges(), request->mutable_destination_ranges());
  Settle(request->mutable_series());
}
inline void Settle(v1::CreateTransferRequest* request) {
  SettleRanges(request->mutable_source_ranges(), request->mutable_destination_ranges());
}
inline void Settle(v1::Introduction* self) {
  // Two devices make one pair.
  self->mutable_capabilities()->mutable_topology()->mutable_distances()->Truncate(1);
}
inline void Settle(v1::HelloRequest* hello) { Settle(hello->mutable_self()); }
inline void Settle(v1::HelloResponse* hello) { Settle(hello->mutable_self()); }
template <typename Message>
void Settle(Message*) {}
inline void Settle(v1::OpenPushResponse* response) { Settle(response->mutable_plan()); }
inline void Settle(v1::PrepareRequest* request) {
  Settle(request->mutable_transfer());
  Settle(request->mutable_series());
}
inline void Settle(v1::ReportRequest* request) { Settle(request->mutable_transfer()); }
inline void Settle(v1::SumBufferResponse* sum) { sum->mutable_checksum()->clear_verified(); }

template <typename Message>
Message Sample() {
  Message message;
  testing::Fill(&message);
  Settle(&message);
  return message;
}

// The value that a message stands for, which must be a good one.
template <typename Message>
auto Parsed(const Message& message) {
  auto value = Parse(message);
  REQUIRE_OK(value);
  return std::move(*value);
}

inline engine::TransferInfo SampleTransfer() { return Parsed(Sample<v1::Transfer>()); }
inline engine::BufferInfo SampleBuffer() { return Parsed(Sample<v1::Buffer>()); }

inline engine::GrantInfo SampleGrant() {
  engine::GrantInfo grant;
  grant.id = GrantId("g7");
  grant.buffer = "weights";
  grant.range = {4096, 1 << 20};
  grant.to = "1000@west";
  grant.read = true;
  grant.write = true;
  grant.expire_time = engine::WallTime(std::chrono::milliseconds(1'800'000'000'123));
  grant.owner = "1001@east";
  grant.node = "east";
  return grant;
}

inline engine::ProbeInfo SampleProbe() {
  engine::ProbeInfo probe;
  probe.peer = "west";
  probe.link = "verbs";
  probe.source_memory = "cuda";
  probe.source_device = "GPU-a";
  probe.destination_memory = "cuda";
  probe.destination_device = "GPU-b";
  probe.source_nic = "mlx5_0";
  probe.destination_nic = "mlx5_1";
  probe.viability = {true, "NIC_UNREACHABLE", "what was seen", "what to do"};
  probe.bytes_per_second = 47e9;
  probe.latency_seconds = 3e-6;
  probe.time = engine::WallTime(std::chrono::milliseconds(1'700'000'000'789));
  probe.expire_time = engine::WallTime(std::chrono::milliseconds(1'700'000'600'789));
  return probe;
}

inline engine::NodeInfo SampleNode() {
  const engine::Introduction self = Parsed(Sample<v1::HelloRequest>()).self;
  engine::NodeInfo node;
  node.name = self.node;
  node.self = true;
  node.state = engine::NodeState::kDraining;
  node.address = "10.0.0.1:7701";
  node.boot_id = "boot";
  node.protocol_min = 2;
  node.protocol_max = 5;
  node.version = "1.2.3";
  node.reason = "PEER_DOWN";
  node.detail = "it does not answer";
  node.since = engine::WallTime(std::chrono::milliseconds(1'700'000'000'456));
  node.uid_domain = "cluster";
  node.capabilities = *self.capabilities;
  node.probes = {SampleProbe()};
  node.slow_transfers = 3;
  node.path_rates = {
      {{"tcp-staged", "tcp", {"cuda", "GPU-a"}, {"cuda", "GPU-b"}, true, true},
       16 << 20,
       {42e9, 5, engine::WallTime(std::chrono::milliseconds(1'700'000'000'789)), 0}}};
  node.expiries = {{"the certificate of this node", "/etc/onecopy/east.pem",
                    engine::WallTime(std::chrono::milliseconds(1'700'000'000'001)),
                    engine::WallTime(std::chrono::milliseconds(1'800'000'000'002))}};
  return node;
}

// The message that a value is printed as.
template <typename Message>
Message Printed(const auto& value) {
  Message message;
  Print(value, &message);
  return message;
}

}  // namespace onecopy::rpc
