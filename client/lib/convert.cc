#include "client/lib/convert.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "client/lib/convert_time.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::client {
namespace {

constexpr size_t kMostTextBytes = 256;
constexpr size_t kMostFileBytes = 4096;

Step FromWire(const v1::Step& wire) {
  return {wire.node(), wire.from(), wire.to(), wire.by(), wire.loopback(), wire.emulated()};
}

template <typename Repeated>
std::vector<Refusal> RefusalsFromWire(const Repeated& wire) {
  std::vector<Refusal> refusals;
  refusals.reserve(static_cast<size_t>(wire.size()));
  for (const v1::Refusal& refusal : wire) {
    refusals.push_back({refusal.path(), refusal.reason(), refusal.detail(), refusal.remedy()});
  }
  return refusals;
}

TransferState FromWire(v1::TransferState wire) {
  switch (wire) {
    case v1::PENDING:
      return TransferState::kPending;
    case v1::RUNNING:
      return TransferState::kRunning;
    case v1::SUCCEEDED:
      return TransferState::kSucceeded;
    case v1::FAILED:
      return TransferState::kFailed;
    case v1::CANCELLED:
      return TransferState::kCancelled;
    case v1::UNCONFIRMED:
      return TransferState::kUnconfirmed;
    default:
      return TransferState::kUnknown;
  }
}

TransferRole FromWire(v1::TransferRole wire) {
  switch (wire) {
    case v1::DESTINATION:
      return TransferRole::kDestination;
    case v1::SOURCE:
      return TransferRole::kSource;
    case v1::ORDERER:
      return TransferRole::kOrderer;
    default:
      return TransferRole::kUnknown;
  }
}

void AddRange(const StridedRange& range, bool strided, v1::Ranges* out) {
  out->add_offset_bytes(range.offset);
  out->add_bytes(range.bytes);
  if (!strided) return;
  out->add_stride_bytes(range.stride);
  out->add_count(range.count);
}

}  // namespace

Status CheckText(std::string_view what, const std::string& text) {
  if (text.size() > kMostTextBytes) {
    return {Code::kInvalidArgument, reasons::kBadName,
            std::string(what) + " has " + std::to_string(text.size()) + " bytes, more than " +
                std::to_string(kMostTextBytes)};
  }
  const auto unprintable = [](char c) { return c < 0x20 || c > 0x7e; };
  if (std::any_of(text.begin(), text.end(), unprintable)) {
    return {Code::kInvalidArgument, reasons::kBadName,
            std::string(what) + " has characters other than printable ASCII"};
  }
  return OkStatus();
}

// File names may be any bytes.
v1::Endpoint ToWire(const Endpoint& endpoint) {
  v1::Endpoint wire;
  wire.set_node(endpoint.node);
  wire.set_buffer(endpoint.buffer);
  if (endpoint.offset_bytes.has_value()) wire.set_offset_bytes(*endpoint.offset_bytes);
  if (endpoint.bytes.has_value()) wire.set_bytes(*endpoint.bytes);
  wire.set_file(CutUtf8(ToUtf8(endpoint.file), kMostFileBytes));
  return wire;
}

v1::Policy ToWire(const Policy& policy) {
  v1::Policy wire;
  wire.set_path_glob(policy.path_glob);
  if (policy.at_most_copies.has_value()) wire.set_at_most_copies(*policy.at_most_copies);
  wire.set_link(policy.link);
  wire.set_allow_emulated(policy.allow_emulated);
  return wire;
}

google::protobuf::Duration ToWire(std::chrono::milliseconds duration) {
  return google::protobuf::util::TimeUtil::MillisecondsToDuration(duration.count());
}

Result<v1::CreateTransferRequest> ToWire(const TransferRequest& request, bool validate_only) {
  ONECOPY_RETURN_IF_ERROR(CheckText("the source's node", request.source.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the source's buffer", request.source.buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the destination's node", request.destination.node));
  ONECOPY_RETURN_IF_ERROR(CheckText("the destination's buffer", request.destination.buffer));
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  ONECOPY_RETURN_IF_ERROR(CheckText("the link", request.policy.link));
  ONECOPY_RETURN_IF_ERROR(CheckText("the request id", request.request_id));
  v1::CreateTransferRequest wire;
  wire.set_request_id(request.request_id.empty() ? os::RandomHex(16) : request.request_id);
  *wire.mutable_source() = ToWire(request.source);
  *wire.mutable_destination() = ToWire(request.destination);
  *wire.mutable_policy() = ToWire(request.policy);
  wire.set_checksum(request.checksum);
  if (request.deadline.has_value()) *wire.mutable_deadline() = ToWire(*request.deadline);
  wire.set_validate_only(validate_only);
  wire.set_client_file(request.client_file);
  wire.set_part_of(request.part_of.str());
  if (!request.ranges.empty()) {
    const auto side = [&](StridedRange RangePair::*end, v1::Ranges* out) {
      const bool strided =
          std::any_of(request.ranges.begin(), request.ranges.end(),
                      [end](const RangePair& pair) { return (pair.*end).count != 1; });
      for (const RangePair& pair : request.ranges) AddRange(pair.*end, strided, out);
    };
    side(&RangePair::source, wire.mutable_source_ranges());
    side(&RangePair::destination, wire.mutable_destination_ranges());
  }
  return wire;
}

Result<v1::OpenSeriesRequest> ToWire(const SeriesRequest& request) {
  for (const Endpoint* end : {&request.source, &request.destination}) {
    ONECOPY_RETURN_IF_ERROR(CheckText("the end's node", end->node));
    ONECOPY_RETURN_IF_ERROR(CheckText("the end's buffer", end->buffer));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText("the path", request.policy.path_glob));
  ONECOPY_RETURN_IF_ERROR(CheckText("the link", request.policy.link));
  v1::OpenSeriesRequest wire;
  *wire.mutable_source() = ToWire(request.source);
  *wire.mutable_destination() = ToWire(request.destination);
  if (request.bytes.has_value()) wire.set_bytes(*request.bytes);
  *wire.mutable_policy() = ToWire(request.policy);
  wire.set_checksum(request.checksum);
  if (request.deadline.has_value()) *wire.mutable_deadline() = ToWire(*request.deadline);
  return wire;
}

Endpoint FromWire(const v1::Endpoint& wire) {
  Endpoint endpoint;
  endpoint.node = wire.node();
  endpoint.buffer = wire.buffer();
  if (wire.has_offset_bytes()) endpoint.offset_bytes = wire.offset_bytes();
  if (wire.has_bytes()) endpoint.bytes = wire.bytes();
  endpoint.file = wire.file();
  return endpoint;
}

Plan FromWire(const v1::Plan& wire) {
  Plan plan;
  plan.path = wire.path();
  plan.copies = wire.copies();
  plan.link = wire.link();
  for (const v1::Step& step : wire.steps()) plan.steps.push_back(FromWire(step));
  plan.estimated_bytes_per_second = wire.estimated_bytes_per_second();
  plan.measured = wire.measured();
  if (wire.has_measure_time()) plan.measure_time = FromWire(wire.measure_time());
  plan.measured_transfers = wire.measured_transfers();
  plan.tried_again = wire.tried_again();
  plan.refused = RefusalsFromWire(wire.refused());
  return plan;
}

Receipt FromWire(const v1::Receipt& wire) {
  Receipt receipt;
  receipt.path = wire.path();
  receipt.link = wire.link();
  receipt.emulated = wire.emulated();
  receipt.registration = wire.registration();
  receipt.key = wire.key();
  if (!wire.encryption().empty()) receipt.encryption = wire.encryption();
  for (const v1::Step& step : wire.steps()) {
    receipt.steps.push_back({FromWire(step), step.bytes()});
  }
  for (const v1::Lane& lane : wire.lanes()) {
    receipt.lanes.push_back({lane.device(), lane.peer(), lane.bytes()});
  }
  receipt.seconds = wire.seconds();
  receipt.bytes_per_second = wire.bytes_per_second();
  receipt.negotiation_seconds = wire.negotiation_seconds();
  if (wire.has_checksum()) {
    receipt.checksum = ChecksumResult{wire.checksum().algorithm(), wire.checksum().value(),
                                      wire.checksum().verified()};
  }
  receipt.refused = RefusalsFromWire(wire.refused());
  for (const v1::Attempt& attempt : wire.attempts()) {
    receipt.attempts.push_back({attempt.path(), attempt.outcome(), attempt.bytes()});
  }
  receipt.evidence = {wire.evidence().begin(), wire.evidence().end()};
  receipt.ranges = std::max<uint64_t>(wire.ranges(), 1);
  receipt.merged_ranges = std::max<uint64_t>(wire.merged_ranges(), 1);
  return receipt;
}

TransferInfo FromWire(const v1::Transfer& wire) {
  TransferInfo transfer;
  transfer.id = TransferId(wire.id());
  transfer.state = FromWire(wire.state());
  transfer.role = FromWire(wire.role());
  transfer.source = FromWire(wire.source());
  transfer.destination = FromWire(wire.destination());
  transfer.bytes = wire.bytes();
  transfer.bytes_done = wire.bytes_done();
  transfer.owner = wire.owner();
  transfer.create_time = FromWire(wire.create_time());
  if (wire.has_end_time()) transfer.end_time = FromWire(wire.end_time());
  if (wire.has_plan()) transfer.plan = FromWire(wire.plan());
  transfer.receipt = FromWire(wire.receipt());
  if (wire.has_error()) transfer.error = FromProto(wire.error());
  transfer.part_of = TransferId(wire.part_of());
  transfer.parts = wire.parts();
  transfer.waits_for = wire.waits_for();
  return transfer;
}

BufferInfo FromWire(const v1::Buffer& wire) {
  BufferInfo buffer;
  buffer.node = wire.node();
  buffer.name = wire.name();
  buffer.id = wire.id();
  buffer.memory = wire.memory();
  buffer.device = wire.device();
  buffer.bytes = wire.bytes();
  buffer.owner = wire.owner();
  buffer.registered = wire.registered();
  buffer.create_time = FromWire(wire.create_time());
  buffer.transfers = wire.transfers();
  return buffer;
}

GrantInfo FromWire(const v1::Grant& wire) {
  GrantInfo grant;
  grant.id = GrantId(wire.id());
  grant.buffer = wire.buffer();
  grant.range = {wire.offset_bytes(), wire.bytes()};
  grant.to = wire.to();
  grant.read = wire.read();
  grant.write = wire.write();
  if (wire.has_expire_time()) grant.expire_time = FromWire(wire.expire_time());
  grant.owner = wire.owner();
  grant.node = wire.node();
  return grant;
}

}  // namespace onecopy::client
