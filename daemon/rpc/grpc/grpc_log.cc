#include "daemon/rpc/grpc/grpc_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string_view>
#include <utility>

namespace onecopy::rpc {
namespace {

// gRPC takes a bare function, and may log while the process ends: this is never destroyed.
std::function<void(const std::string&)>* redirected = nullptr;

// A handshake that fails tells those who wait for it; gRPC adds a line of its own, without a name.
bool IsOfHandshake(std::string_view file) {
  return file.find("/tsi/") != std::string_view::npos ||
         file.find("handshaker") != std::string_view::npos;
}

void Log(gpr_log_func_args* entry) {
  if (entry->severity == GPR_LOG_SEVERITY_ERROR && !IsOfHandshake(entry->file)) {
    (*redirected)(entry->message);
  }
}

}  // namespace

void RedirectGrpcLog(std::function<void(const std::string& message)> log) {
  redirected = new std::function<void(const std::string&)>(std::move(log));
  gpr_set_log_function(Log);
  // A line for each text of a client's that is no UTF-8; who parses it refuses it, and says so.
  google::protobuf::SetLogHandler(nullptr);
}

}  // namespace onecopy::rpc
