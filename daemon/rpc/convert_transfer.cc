#include "daemon/rpc/convert_transfer.h"

#include "daemon/rpc/convert_ranges.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

using engine::TransferRole;
using engine::TransferState;

Result<TransferState> ParseState(v1::TransferState state, const Field& at) {
  switch (state) {
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
      return BadField(at, "is no state of a transfer: " + std::to_string(state));
  }
}

v1::TransferState PrintState(TransferState state) {
  switch (state) {
    case TransferState::kPending:
      return v1::PENDING;
    case TransferState::kRunning:
      return v1::RUNNING;
    case TransferState::kSucceeded:
      return v1::SUCCEEDED;
    case TransferState::kFailed:
      return v1::FAILED;
    case TransferState::kCancelled:
      return v1::CANCELLED;
    case TransferState::kUnconfirmed:
      return v1::UNCONFIRMED;
  }
  return v1::TRANSFER_STATE_UNSPECIFIED;
}

Result<TransferRole> ParseRole(v1::TransferRole role, const Field& at) {
  switch (role) {
    case v1::DESTINATION:
      return TransferRole::kDestination;
    case v1::SOURCE:
      return TransferRole::kSource;
    case v1::ORDERER:
      return TransferRole::kOrderer;
    default:
      return BadField(at, "is no part in a transfer: " + std::to_string(role));
  }
}

v1::TransferRole PrintRole(TransferRole role) {
  switch (role) {
    case TransferRole::kDestination:
      return v1::DESTINATION;
    case TransferRole::kSource:
      return v1::SOURCE;
    case TransferRole::kOrderer:
      return v1::ORDERER;
  }
  return v1::TRANSFER_ROLE_UNSPECIFIED;
}

}  // namespace

Result<TransferId> ParseTransferId(const std::string& id, const Field& at) {
  if (id.empty()) return BadField(at, "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(id, at));
  return TransferId(id);
}

Result<engine::TransferInfo> Parse(const v1::Transfer& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.id(), at / "id"));  // empty where it was only planned
  ONECOPY_RETURN_IF_ERROR(CheckText(in.owner(), at / "owner"));
  engine::TransferInfo value;
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
  value.error = FromProto(in.error());
  ONECOPY_RETURN_IF_ERROR(CheckText(in.part_of(), at / "part_of"));
  value.part_of = TransferId(in.part_of());
  value.parts = in.parts();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.waits_for(), at / "waits_for", kMostText));
  value.waits_for = in.waits_for();
  return value;
}

void Print(const engine::TransferInfo& value, v1::Transfer* out) {
  out->set_id(ToUtf8(value.id.str()));
  out->set_state(PrintState(value.state));
  out->set_role(PrintRole(value.role));
  Print(value.source, out->mutable_source());
  Print(value.destination, out->mutable_destination());
  out->set_bytes(value.bytes);
  out->set_bytes_done(value.bytes_done);
  out->set_owner(ToUtf8(value.owner));
  Print(value.create_time, out->mutable_create_time());
  if (value.end_time) Print(*value.end_time, out->mutable_end_time());
  if (value.plan) Print(*value.plan, out->mutable_plan());
  // Only what has moved has a rate.
  const bool all = value.state == TransferState::kSucceeded;
  Print(value.receipt, all ? value.bytes : value.bytes_done, out->mutable_receipt());
  if (!value.error.ok()) *out->mutable_error() = ToProto(value.error);
  out->set_part_of(ToUtf8(value.part_of.str()));
  out->set_parts(value.parts);
  out->set_waits_for(ToUtf8(value.waits_for));
}

Result<engine::TransferRequest> Parse(const v1::CreateTransferRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMostRequestId));
  if (!in.has_source()) return BadField(at / "source", "is missing");
  if (!in.has_destination()) return BadField(at / "destination", "is missing");
  engine::TransferRequest value;
  value.request_id = in.request_id();
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  ONECOPY_ASSIGN_OR_RETURN(value.policy, Parse(in.policy(), at / "policy"));
  value.checksum = in.checksum();
  ONECOPY_ASSIGN_OR_RETURN(value.deadline,
                           ParseLimit(in.has_deadline(), in.deadline(), at / "deadline"));
  value.validate_only = in.validate_only();
  value.policy.client_file = in.client_file();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.part_of(), at / "part_of"));
  value.part_of = TransferId(in.part_of());
  if (in.has_source_ranges() != in.has_destination_ranges()) {
    return BadField(at / (in.has_source_ranges() ? "destination_ranges" : "source_ranges"),
                    "is missing: each source range has its destination range");
  }
  if (in.has_source_ranges()) {
    ONECOPY_ASSIGN_OR_RETURN(value.ranges,
                             ParsePairs(in.source_ranges(), in.destination_ranges(), at));
  }
  return value;
}

Result<engine::SeriesRequest> Parse(const v1::OpenSeriesRequest& in) {
  const Field at;
  engine::SeriesRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.source, Parse(in.source(), at / "source"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  if (in.has_bytes()) value.bytes = in.bytes();
  ONECOPY_ASSIGN_OR_RETURN(value.policy, Parse(in.policy(), at / "policy"));
  value.policy.client_file = true;
  value.checksum = in.checksum();
  ONECOPY_ASSIGN_OR_RETURN(value.deadline,
                           ParseLimit(in.has_deadline(), in.deadline(), at / "deadline"));
  return value;
}

Result<engine::SeriesEnd> Parse(const v1::EndSeriesRequest& in) {
  const Field at;
  engine::SeriesEnd value;
  ONECOPY_ASSIGN_OR_RETURN(value.id, ParseTransferId(in.id(), at / "id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.checksum(), at / "checksum"));
  value.failure = FromProto(in.failure());
  value.checksum = in.checksum();
  return value;
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

void Print(const engine::Page<engine::TransferInfo>& value, v1::ListTransfersResponse* out) {
  for (const engine::TransferInfo& transfer : value.items) Print(transfer, out->add_transfers());
  out->set_next_page_token(ToUtf8(value.next_token));
}

}  // namespace onecopy::rpc
