#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "proto/codec/codec.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

// Both ways by one table.
constexpr std::array<std::pair<TransferState, v1::TransferState>, 6> kStates = {{
    {TransferState::kPending, v1::PENDING},
    {TransferState::kRunning, v1::RUNNING},
    {TransferState::kSucceeded, v1::SUCCEEDED},
    {TransferState::kFailed, v1::FAILED},
    {TransferState::kCancelled, v1::CANCELLED},
    {TransferState::kUnconfirmed, v1::UNCONFIRMED},
}};
constexpr std::array<std::pair<TransferRole, v1::TransferRole>, 3> kRoles = {{
    {TransferRole::kDestination, v1::DESTINATION},
    {TransferRole::kSource, v1::SOURCE},
    {TransferRole::kInitiator, v1::INITIATOR},
}};

Result<TransferState> ParseState(v1::TransferState in, const Field& at) {
  for (const auto& [value, message] : kStates) {
    if (message == in) return value;
  }
  if (at.strict()) return BadField(at, "is not a state of a transfer: " + std::to_string(in));
  return TransferState::kUnknown;
}

v1::TransferState PrintState(TransferState state) {
  for (const auto& [value, message] : kStates) {
    if (value == state) return message;
  }
  return v1::TRANSFER_STATE_UNSPECIFIED;
}

Result<TransferRole> ParseRole(v1::TransferRole in, const Field& at) {
  for (const auto& [value, message] : kRoles) {
    if (message == in) return value;
  }
  if (at.strict()) return BadField(at, "is not a part in a transfer: " + std::to_string(in));
  return TransferRole::kUnknown;
}

v1::TransferRole PrintRole(TransferRole role) {
  for (const auto& [value, message] : kRoles) {
    if (value == role) return message;
  }
  return v1::TRANSFER_ROLE_UNSPECIFIED;
}

void Shorten(google::protobuf::RepeatedPtrField<v1::Refusal>* refused) {
  constexpr int kMost = 128;
  constexpr size_t kMostText = 128;
  if (refused->size() > kMost) refused->DeleteSubrange(kMost, refused->size() - kMost);
  for (v1::Refusal& refusal : *refused) {
    refusal.set_detail(CutUtf8(refusal.detail(), kMostText));
    refusal.set_remedy(CutUtf8(refusal.remedy(), kMostText));
  }
}

// So that it is read strictly, whatever a transfer of very many parts has gathered.
void Shorten(v1::Transfer* out) {
  constexpr int kMost = 256;
  constexpr size_t kMostText = 512;
  if (out->has_plan()) Shorten(out->mutable_plan()->mutable_refused());
  v1::Receipt& receipt = *out->mutable_receipt();
  Shorten(receipt.mutable_refused());
  const auto cut = [](auto* list) {
    if (list->size() > kMost) list->DeleteSubrange(kMost, list->size() - kMost);
  };
  cut(receipt.mutable_lanes());
  cut(receipt.mutable_attempts());
  for (auto& [key, text] : *receipt.mutable_evidence()) text = CutUtf8(text, kMostText);
}

// Beside the first, so that there are kMaxBuffers at most.
Result<std::vector<Endpoint>> ParseMore(const google::protobuf::RepeatedPtrField<v1::Endpoint>& in,
                                        const Field& at) {
  if (static_cast<size_t>(in.size()) >= kMaxBuffers) {
    return BadField(at, "has more than " + std::to_string(kMaxBuffers - 1) + " buffers");
  }
  return ParseEach(in, at, [](const v1::Endpoint& one, const Field& of) { return Parse(one, of); });
}

}  // namespace

Result<TransferId> ParseTransferId(const std::string& id, const Field& at) {
  if (at.strict() && id.empty()) return BadField(at, "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(id, at));
  return TransferId(id);
}

Result<TraceContext> ParseTrace(const std::string& traceparent, const Field& at) {
  Result<TraceContext> trace = TraceContext::Parse(traceparent);
  if (!trace.ok()) return BadField(at, "is not a W3C traceparent");
  return trace;
}

Result<TransferInfo> Parse(const v1::Transfer& in, const Field& field) {
  const Field at = field.Within(kMaxTransferText);
  ONECOPY_RETURN_IF_ERROR(CheckText(in.id(), at / "id"));  // empty where it was only planned
  ONECOPY_RETURN_IF_ERROR(CheckText(in.owner(), at / "owner"));
  TransferInfo value;
  value.id = TransferId(in.id());
  ONECOPY_ASSIGN_OR_RETURN(value.state, ParseState(in.state(), at / "state"));
  ONECOPY_ASSIGN_OR_RETURN(value.role, ParseRole(in.role(), at / "role"));
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  value.bytes = in.bytes();
  value.bytes_done = in.bytes_done();
  value.owner = in.owner();
  ONECOPY_ASSIGN_OR_RETURN(value.create_time, Parse(in.create_time(), at / "create_time"));
  if (in.has_end_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.end_time, Parse(in.end_time(), at / "end_time"));
  }
  if (in.has_plan()) {
    ONECOPY_ASSIGN_OR_RETURN(value.plan, Parse(in.plan(), at / "plan"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.receipt, Parse(in.receipt(), at / "receipt"));
  ONECOPY_RETURN_IF_ERROR(ParseStatus(in.error(), at / "error", &value.error));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.part_of(), at / "part_of"));
  value.part_of = TransferId(in.part_of());
  value.parts = in.parts();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.waits_for(), at / "waits_for", kMaxText));
  value.waits_for = in.waits_for();
  value.source_buffers = std::max<uint64_t>(in.source_buffers(), 1);
  value.destination_buffers = std::max<uint64_t>(in.destination_buffers(), 1);
  ONECOPY_ASSIGN_OR_RETURN(value.trace, ParseTrace(in.trace(), at / "trace"));
  return value;
}

void Print(const TransferInfo& value, v1::Transfer* out) {
  out->set_id(value.id.str());
  out->set_state(PrintState(value.state));
  out->set_role(PrintRole(value.role));
  Print(value.source, out->mutable_source());
  Print(value.destination, out->mutable_destination());
  out->set_bytes(value.bytes);
  out->set_bytes_done(value.bytes_done);
  out->set_owner(value.owner);
  Print(value.create_time, out->mutable_create_time());
  if (value.end_time) Print(*value.end_time, out->mutable_end_time());
  if (value.plan) Print(*value.plan, out->mutable_plan());
  Print(value.receipt, out->mutable_receipt());
  if (!value.error.ok()) *out->mutable_error() = ToProto(value.error);
  out->set_part_of(value.part_of.str());
  out->set_parts(value.parts);
  out->set_waits_for(CutUtf8(ToUtf8(value.waits_for), kMaxText));
  out->set_source_buffers(static_cast<uint32_t>(value.source_buffers));
  out->set_destination_buffers(static_cast<uint32_t>(value.destination_buffers));
  out->set_trace(value.trace.str());
  if (out->ByteSizeLong() > kMaxTransferText / 2) Shorten(out);
}

Result<TransferRequest> ParseWithoutRanges(const v1::CreateTransferRequest& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMaxRequestId));
  if (at.strict() && !in.has_source()) return BadField(at / "source", "is missing");
  if (at.strict() && !in.has_destination()) return BadField(at / "destination", "is missing");
  TransferRequest value;
  value.request_id = in.request_id();
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  ONECOPY_ASSIGN_OR_RETURN(value.policy, Parse(in.policy(), at / "policy"));
  value.policy.client_file = in.client_file();
  value.checksum = in.checksum();
  value.sync = in.sync();
  ONECOPY_ASSIGN_OR_RETURN(value.deadline,
                           ParseLimit(in.has_deadline(), in.deadline(), at / "deadline"));
  value.validate_only = in.validate_only();
  ONECOPY_ASSIGN_OR_RETURN(value.pacing, Parse(in.pacing(), at / "pacing"));
  ONECOPY_ASSIGN_OR_RETURN(value.trace, ParseTrace(in.trace(), at / "trace"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.part_of(), at / "part_of"));
  value.part_of = TransferId(in.part_of());
  ONECOPY_RETURN_IF_ERROR(CheckMessage(in.message(), at / "message"));
  value.message = in.message();
  ONECOPY_ASSIGN_OR_RETURN(value.more_sources, ParseMore(in.more_sources(), at / "more_sources"));
  ONECOPY_ASSIGN_OR_RETURN(value.more_destinations,
                           ParseMore(in.more_destinations(), at / "more_destinations"));
  return value;
}

Result<AskedRanges> ParseRanges(const v1::CreateTransferRequest& in, const Field& at) {
  if (in.has_source_ranges() != in.has_destination_ranges()) {
    return BadField(at / (in.has_source_ranges() ? "destination_ranges" : "source_ranges"),
                    "is missing: each source range needs a destination range");
  }
  if (!in.has_source_ranges()) return AskedRanges();
  const auto ranges = static_cast<uint64_t>(in.source_ranges().offset_bytes_size());
  if (in.asked_ranges() != 0 && (in.asked_ranges() < ranges || in.asked_ranges() > kMaxRanges)) {
    return BadField(at / "asked_ranges",
                    "is less than there are ranges, or more than " + std::to_string(kMaxRanges));
  }
  return ParsePairs(in.source_ranges(), at / "source_ranges", in.destination_ranges(),
                    at / "destination_ranges");
}

Result<TransferRequest> Parse(const v1::CreateTransferRequest& in, const Field& at) {
  ONECOPY_ASSIGN_OR_RETURN(TransferRequest value, ParseWithoutRanges(in, at));
  ONECOPY_ASSIGN_OR_RETURN(AskedRanges asked, ParseRanges(in, at));
  value.ranges = std::move(asked.pairs);
  if (!asked.equal.sources.empty()) {
    value.equal_ranges = std::make_shared<const EqualRanges>(std::move(asked.equal));
  }
  return value;
}

void Print(const TransferRequest& value, v1::CreateTransferRequest* out) {
  PrintWithoutRanges(value, out);
  if (value.equal_ranges != nullptr) {
    PrintPairs(*value.equal_ranges, out->mutable_source_ranges(),
               out->mutable_destination_ranges());
  }
  if (value.ranges.empty()) return;
  PrintPairs(value.ranges, out->mutable_source_ranges(), out->mutable_destination_ranges());
}

void PrintWithoutRanges(const TransferRequest& value, v1::CreateTransferRequest* out) {
  out->set_request_id(value.request_id);
  Print(value.source, out->mutable_source());
  Print(value.destination, out->mutable_destination());
  Print(value.policy, out->mutable_policy());
  out->set_client_file(value.policy.client_file);
  out->set_checksum(value.checksum);
  out->set_sync(value.sync);
  if (value.deadline) Print(*value.deadline, out->mutable_deadline());
  out->set_validate_only(value.validate_only);
  if (value.pacing != Pacing()) Print(value.pacing, out->mutable_pacing());
  out->set_trace(value.trace.str());
  out->set_part_of(value.part_of.str());
  out->set_message(value.message);
  for (const Endpoint& one : value.more_sources) Print(one, out->add_more_sources());
  for (const Endpoint& one : value.more_destinations) Print(one, out->add_more_destinations());
}

Result<SeriesRequest> Parse(const v1::OpenSeriesRequest& in, const Field& at) {
  SeriesRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  if (in.has_bytes()) value.bytes = in.bytes();
  ONECOPY_ASSIGN_OR_RETURN(value.policy, Parse(in.policy(), at / "policy"));
  value.policy.client_file = true;
  value.checksum = in.checksum();
  ONECOPY_ASSIGN_OR_RETURN(value.deadline,
                           ParseLimit(in.has_deadline(), in.deadline(), at / "deadline"));
  ONECOPY_ASSIGN_OR_RETURN(value.pacing, Parse(in.pacing(), at / "pacing"));
  ONECOPY_ASSIGN_OR_RETURN(value.trace, ParseTrace(in.trace(), at / "trace"));
  return value;
}

void Print(const SeriesRequest& value, v1::OpenSeriesRequest* out) {
  Print(value.source, out->mutable_source());
  Print(value.destination, out->mutable_destination());
  if (value.bytes) out->set_bytes(*value.bytes);
  Print(value.policy, out->mutable_policy());
  out->set_checksum(value.checksum);
  if (value.deadline) Print(*value.deadline, out->mutable_deadline());
  if (value.pacing != Pacing()) Print(value.pacing, out->mutable_pacing());
  out->set_trace(value.trace.str());
}

Result<SeriesEnd> Parse(const v1::EndSeriesRequest& in, const Field& at) {
  SeriesEnd value;
  ONECOPY_ASSIGN_OR_RETURN(value.id, ParseTransferId(in.id(), at / "id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.checksum(), at / "checksum"));
  ONECOPY_RETURN_IF_ERROR(ParseStatus(in.failure(), at / "failure", &value.failure));
  value.checksum = in.checksum();
  return value;
}

void Print(const SeriesEnd& value, v1::EndSeriesRequest* out) {
  out->set_id(value.id.str());
  if (!value.failure.ok()) *out->mutable_failure() = ToProto(value.failure);
  out->set_checksum(ToUtf8(value.checksum));
}

}  // namespace onecopy::codec
