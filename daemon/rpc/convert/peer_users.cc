// What users of one node ask of another.
#include "daemon/rpc/convert/peer.h"

#include <tuple>
#include <utility>

#include "transport/core/base/name.h"

namespace onecopy::rpc {

Result<std::tuple<Uid, TransferId>> Parse(const v1::CancelPeerTransferRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(TransferId id,
                           ParseTransferId(in.transfer_id(), Field() / "transfer_id"));
  return std::tuple(std::move(uid), std::move(id));
}

Result<std::tuple<Uid, CreateBufferRequest>> Parse(const v1::CreatePeerBufferRequest& in) {
  const Field at;
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, at));
  if (!in.has_request()) return BadField(at / "request", "is missing");
  ONECOPY_ASSIGN_OR_RETURN(CreateBufferRequest request, Parse(in.request(), at / "request"));
  return std::tuple(std::move(uid), std::move(request));
}

Result<std::tuple<Uid, std::string, bool>> Parse(const v1::DeletePeerBufferRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(std::string name, ParseName(in.name(), Field() / "name"));
  return std::tuple(std::move(uid), std::move(name), in.force());
}

Result<std::tuple<Uid, std::string>> Parse(const v1::GetPeerBufferRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(std::string name, ParseName(in.name(), Field() / "name"));
  return std::tuple(std::move(uid), std::move(name));
}

Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerBuffersRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), Field()));
  return std::tuple(std::move(uid), std::move(page));
}

Result<std::tuple<Uid, SumRequest>> Parse(const v1::SumPeerBufferRequest& in) {
  const Field at;
  if (!in.has_range()) return BadField(at / "range", "is missing");
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, at));
  ONECOPY_ASSIGN_OR_RETURN(Endpoint range, Parse(in.range(), at / "range"));
  return std::tuple(std::move(uid), SumRequest{std::move(range), in.block_bytes()});
}

Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerGrantsRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), Field()));
  return std::tuple(std::move(uid), std::move(page));
}

Result<std::tuple<Uid, engine::PageRequest>> Parse(const v1::ListPeerExportsRequest& in) {
  ONECOPY_ASSIGN_OR_RETURN(Uid uid, ParseUid(in, Field()));
  ONECOPY_ASSIGN_OR_RETURN(engine::PageRequest page,
                           ParsePage(in.page_size(), in.page_token(), Field()));
  return std::tuple(std::move(uid), std::move(page));
}

Result<engine::PeerMessage> Parse(const v1::SendPeerMessageRequest& in) {
  const Field at;
  if (!in.has_destination()) return BadField(at / "destination", "is missing");
  if (in.message().empty()) return BadField(at / "message", "is missing");
  ONECOPY_RETURN_IF_ERROR(codec::CheckMessage(in.message(), at / "message"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.request_id(), at / "request_id", codec::kMaxRequestId));
  engine::PeerMessage value;
  ONECOPY_ASSIGN_OR_RETURN(value.uid, ParseUid(in, at));
  ONECOPY_ASSIGN_OR_RETURN(value.asked.destination, Parse(in.destination(), at / "destination"));
  value.asked.message = in.message();
  value.asked.request_id = in.request_id();
  return value;
}

void Print(const engine::PeerMessage& value, v1::SendPeerMessageRequest* out) {
  PrintUid(value.uid, out);
  Print(value.asked.destination, out->mutable_destination());
  out->set_message(value.asked.message);
  out->set_request_id(value.asked.request_id);
}

}  // namespace onecopy::rpc
