#include "proto/codec/codec.h"

namespace onecopy::codec {

Status CheckMessage(const std::string& message, const Field& at) {
  if (!at.strict() || message.size() <= kMaxArrivalMessageBytes) return OkStatus();
  return BadField(at,
                  "has " + std::to_string(message.size()) + " bytes; a message has at most " +
                      std::to_string(kMaxArrivalMessageBytes) + ": put longer data into a buffer",
                  reasons::kBadSize);
}

Result<Arrival> Parse(const v1::Arrival& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.buffer(), at / "buffer"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.buffer_id(), at / "buffer_id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.transfer_id(), at / "transfer_id"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.from(), at / "from"));
  ONECOPY_RETURN_IF_ERROR(CheckMessage(in.message(), at / "message"));
  Arrival value;
  value.buffer = in.buffer();
  value.buffer_id = in.buffer_id();
  value.sequence = in.sequence();
  value.transfer = TransferId(in.transfer_id());
  value.from = in.from();
  value.range = {in.offset_bytes(), in.bytes()};
  value.bytes = in.payload_bytes();
  value.message = in.message();
  ONECOPY_ASSIGN_OR_RETURN(value.time, Parse(in.time(), at / "time"));
  return value;
}

void Print(const Arrival& value, v1::Arrival* out) {
  out->set_buffer(value.buffer);
  out->set_buffer_id(value.buffer_id);
  out->set_sequence(value.sequence);
  out->set_transfer_id(value.transfer.str());
  out->set_from(value.from);
  out->set_offset_bytes(value.range.offset);
  out->set_bytes(value.range.bytes);
  out->set_payload_bytes(value.bytes);
  out->set_message(value.message);
  Print(value.time, out->mutable_time());
}

Result<MessageRequest> Parse(const v1::SendMessageRequest& in, const Field& at) {
  if (at.strict() && !in.has_destination()) return BadField(at / "destination", "is missing");
  if (at.strict() && in.message().empty()) return BadField(at / "message", "is missing");
  ONECOPY_RETURN_IF_ERROR(CheckMessage(in.message(), at / "message"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", kMaxRequestId));
  MessageRequest value;
  ONECOPY_ASSIGN_OR_RETURN(value.destination, Parse(in.destination(), at / "destination"));
  value.message = in.message();
  value.request_id = in.request_id();
  return value;
}

void Print(const MessageRequest& value, v1::SendMessageRequest* out) {
  Print(value.destination, out->mutable_destination());
  out->set_message(value.message);
  out->set_request_id(value.request_id);
}

}  // namespace onecopy::codec
