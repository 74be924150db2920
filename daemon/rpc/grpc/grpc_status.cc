#include "daemon/rpc/grpc/grpc_status.h"

#include <algorithm>
#include <array>
#include <string_view>

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

bool IsAboutCertificates(const std::string& message) {
  constexpr std::array<std::string_view, 6> kWords = {"certificate",           "CERTIFICATE",
                                                      "Hostname Verification", "Peer name",
                                                      "SSL_ERROR_SSL",         "TLSV1_ALERT"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return message.find(word) != std::string::npos;
  });
}

}  // namespace onecopy::rpc
