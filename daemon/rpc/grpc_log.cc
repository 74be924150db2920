#include "daemon/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <utility>

namespace onecopy::rpc {
namespace {

// gRPC takes a bare function, and may log while the process ends: this is never destroyed.
std::function<void(const std::string&)>* redirected = nullptr;

void Log(gpr_log_func_args* entry) {
  if (entry->severity == GPR_LOG_SEVERITY_ERROR) (*redirected)(entry->message);
}

}  // namespace

void RedirectGrpcLog(std::function<void(const std::string& message)> log) {
  redirected = new std::function<void(const std::string&)>(std::move(log));
  gpr_set_log_function(Log);
}

}  // namespace onecopy::rpc
