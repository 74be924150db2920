// Memory that one daemon lends another: to probes, to rings, and in place.
#include "daemon/rpc/convert/peer.h"
#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

constexpr size_t kMaxPrefix = 32;  // of transfers' ids
constexpr int kMaxFillSteps = 4;

}  // namespace

Result<engine::OpenProbeRequest> Parse(const v1::OpenProbeRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.memory(), at / "memory"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  return engine::OpenProbeRequest{in.connection(), in.memory(), in.device(), in.bytes(), in.seed()};
}

void Print(const engine::OpenProbeRequest& value, v1::OpenProbeRequest* out) {
  out->set_connection(value.connection);
  out->set_memory(ToUtf8(value.memory));
  out->set_device(ToUtf8(value.device));
  out->set_bytes(value.bytes);
  out->set_seed(value.seed);
}

Result<engine::OpenProbeReply> Parse(const v1::OpenProbeResponse& in) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.key(), Field() / "key", codec::kMaxOpaque));
  return engine::OpenProbeReply{in.probe(), in.key(), in.bytes()};
}

void Print(const engine::OpenProbeReply& value, v1::OpenProbeResponse* out) {
  out->set_probe(value.probe);
  out->set_key(value.key);
  out->set_bytes(value.bytes);
}

Result<uint64_t> Parse(const v1::CloseProbeRequest& in) { return in.probe(); }

Result<engine::OpenRangeRequest> Parse(const v1::OpenRangeRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.ticket(), at / "ticket"));
  ONECOPY_ASSIGN_OR_RETURN(TransferId id, ParseTransferId(in.transfer_id(), at / "transfer_id"));
  return engine::OpenRangeRequest{in.ticket(), std::move(id),     in.connection(),
                                  in.loan(),   in.sums_channel(), in.fills_channel()};
}

void Print(const engine::OpenRangeRequest& value, v1::OpenRangeRequest* out) {
  out->set_ticket(value.ticket);
  out->set_transfer_id(value.id.str());
  out->set_connection(value.connection);
  out->set_loan(value.loan);
  out->set_sums_channel(value.sums);
  out->set_fills_channel(value.fills);
}

Result<engine::OpenRangeReply> Parse(const v1::OpenRangeResponse& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.key(), at / "key", codec::kMaxOpaque));
  engine::OpenRangeReply value{in.opening(),
                               in.key(),
                               {in.lent_offset_bytes(), in.lent_bytes()},
                               in.sums(),
                               in.fill_bytes()};
  if (in.fill_steps_size() > kMaxFillSteps) {
    return BadField(at / "fill_steps", "has more than " + std::to_string(kMaxFillSteps) + " steps");
  }
  for (int i = 0; i < in.fill_steps_size(); ++i) {
    ONECOPY_ASSIGN_OR_RETURN(ExecutedStep step, codec::Parse(in.fill_steps(i), at / "fill_steps"));
    value.fill_steps.push_back(std::move(step.step));
  }
  return value;
}

void Print(const engine::OpenRangeReply& value, v1::OpenRangeResponse* out) {
  out->set_opening(value.opening);
  out->set_key(value.key);
  out->set_lent_offset_bytes(value.lent.offset);
  out->set_lent_bytes(value.lent.bytes);
  out->set_sums(value.sums);
  out->set_fill_bytes(value.fill_bytes);
  for (const Step& step : value.fill_steps) codec::Print({step, 0}, out->add_fill_steps());
}

Result<engine::OpenPushRequest> Parse(const v1::OpenPushRequest& in) {
  const Field at;
  if (!in.has_reservation()) return BadField(at / "reservation", "is missing");
  if (!in.has_destination()) return BadField(at / "destination", "is missing");
  engine::OpenPushRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.id, ParseTransferId(in.transfer_id(), at / "transfer_id"));
  ONECOPY_ASSIGN_OR_RETURN(value.uid, ParseUid(in, at));
  ONECOPY_ASSIGN_OR_RETURN(value.reservation, Parse(in.reservation(), at / "reservation"));
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  value.channel = in.channel();
  value.long_channel = in.long_channel();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.id_prefix(), at / "id_prefix", kMaxPrefix));
  value.prefix = in.id_prefix();
  return value;
}

void Print(const engine::OpenPushRequest& value, v1::OpenPushRequest* out) {
  out->set_transfer_id(value.id.str());
  PrintUid(value.uid, out);
  Print(value.reservation, out->mutable_reservation());
  Print(value.destination, out->mutable_destination());
  out->set_channel(value.channel);
  out->set_long_channel(value.long_channel);
  out->set_id_prefix(value.prefix);
}

Result<engine::OpenPushReply> Parse(const v1::OpenPushResponse& in) {
  const Field at;
  engine::OpenPushReply value;
  value.opening = in.opening();
  value.connection = in.connection();
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  ONECOPY_ASSIGN_OR_RETURN(value.plan, Parse(in.plan(), at / "plan"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.registration(), at / "registration"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.key(), at / "key"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.encryption(), at / "encryption"));
  value.access = {in.registration(), in.key(), in.encryption()};
  value.most_bytes = in.most_bytes();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.shared(), at / "shared"));
  value.shared = in.shared();
  value.sums = in.sums();
  value.staged = in.staged();
  return value;
}

void Print(const engine::OpenPushReply& value, v1::OpenPushResponse* out) {
  out->set_opening(value.opening);
  out->set_connection(value.connection);
  Print(value.destination, out->mutable_destination());
  Print(value.plan, out->mutable_plan());
  out->set_registration(ToUtf8(value.access.registration));
  out->set_key(ToUtf8(value.access.key));
  out->set_encryption(ToUtf8(value.access.encryption));
  out->set_most_bytes(value.most_bytes);
  out->set_shared(ToUtf8(value.shared));
  out->set_sums(value.sums);
  out->set_staged(value.staged);
}

Result<uint64_t> Parse(const v1::CloseOpeningRequest& in) { return in.opening(); }

Result<engine::ImportMemoryRequest> Parse(const v1::ImportMemoryRequest& in) {
  const Field at;
  ONECOPY_RETURN_IF_ERROR(CheckText(in.ticket(), at / "ticket"));
  ONECOPY_ASSIGN_OR_RETURN(TransferId id, ParseTransferId(in.transfer_id(), at / "transfer_id"));
  return engine::ImportMemoryRequest{in.ticket(), std::move(id)};
}

void Print(const engine::ImportMemoryRequest& value, v1::ImportMemoryRequest* out) {
  out->set_ticket(value.ticket);
  out->set_transfer_id(value.id.str());
}

Result<engine::MemoryExport> Parse(const v1::MemoryExport& in) {
  const Field at;
  if (in.loan() == 0) return BadField(at / "loan", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.token(), at / "token"));
  return engine::MemoryExport{in.loan(), in.address(), in.token()};
}

void Print(const engine::MemoryExport& value, v1::MemoryExport* out) {
  out->set_loan(value.id);
  out->set_address(ToUtf8(value.address));
  out->set_token(value.token);
}

Result<std::tuple<uint64_t, TransferId>> Parse(const v1::RecallRequest& in) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.transfer_id(), Field() / "transfer_id"));
  return std::tuple(in.loan(), TransferId(in.transfer_id()));
}

}  // namespace onecopy::rpc
