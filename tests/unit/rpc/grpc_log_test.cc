#include "daemon/rpc/grpc/grpc_log.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <vector>

#include "tests/support/catch.h"

namespace grpc_log_test {
TEST_CASE("gRPC's errors go where they are sent; what is less, or of a handshake, stays out") {
  static std::vector<std::string> heard;  // gRPC may log until the process ends
  grpc_init();                            // before it gRPC says nothing at all
  onecopy::rpc::RedirectGrpcLog([](const std::string& message) { heard.push_back(message); });
  gpr_log(GPR_ERROR, "something is %s", "wrong");
  gpr_log(GPR_INFO, "nothing is");
  gpr_log("src/core/tsi/ssl_transport_security.cc", 1, GPR_LOG_SEVERITY_ERROR,
          "Handshake failed with fatal error SSL_ERROR_SSL");
  CHECK(heard == std::vector<std::string>{"something is wrong"});
  grpc_shutdown();
}
}  // namespace grpc_log_test
