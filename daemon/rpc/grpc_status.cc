#include "daemon/rpc/grpc_status.h"

#include "proto/codec/status_codec.h"

namespace onecopy::rpc {

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The message is as the details have it: clients compare them.
  return {static_cast<grpc::StatusCode>(status.code()), ToProto(status).message(),
          EncodeStatusDetails(status)};
}

Status FromGrpc(const grpc::Status& status) {
  return DecodeStatus(status.error_code(), status.error_message(), status.error_details());
}

}  // namespace onecopy::rpc
