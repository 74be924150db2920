#include <utility>

#include "proto/codec/codec.h"
#include "proto/codec/status_codec.h"

namespace onecopy::codec {
namespace {

// Ours have two.
constexpr int kMaxDetails = 16;

}  // namespace

Status ParseStatus(const google::rpc::Status& in, const Field& field, Status* value) {
  if (!field.strict()) {
    *value = FromProto(in);
    return OkStatus();
  }
  const Field at = field.Within(kMaxTransferText);
  ONECOPY_RETURN_IF_ERROR(CheckText(in.message(), at / "message", kMaxText));
  if (in.details_size() > kMaxDetails) return BadField(at / "details", "are too many");
  size_t bytes = 0;
  for (const google::protobuf::Any& detail : in.details()) bytes += detail.value().size();
  if (bytes > kMaxTransferText) return BadField(at / "details", "are too long");
  Status status = FromProto(in);
  ONECOPY_RETURN_IF_ERROR(CheckText(status.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(status.remedy(), at / "remedy", kMaxText));
  for (const Refusal& refusal : status.refusals()) {
    ONECOPY_RETURN_IF_ERROR(CheckText(refusal.path, at / "refused"));
    ONECOPY_RETURN_IF_ERROR(CheckText(refusal.reason, at / "refused"));
    ONECOPY_RETURN_IF_ERROR(CheckText(refusal.detail, at / "refused", kMaxText));
    ONECOPY_RETURN_IF_ERROR(CheckText(refusal.remedy, at / "refused", kMaxText));
  }
  *value = std::move(status);
  return OkStatus();
}

}  // namespace onecopy::codec
