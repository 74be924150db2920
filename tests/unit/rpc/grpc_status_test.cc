// How gRPC words failures, and what they are about.
#include "daemon/rpc/grpc/grpc_status.h"

#include "tests/support/catch.h"

namespace grpc_status_test {
using onecopy::Code;
using onecopy::rpc::FromGrpc;
using onecopy::rpc::IsAboutCertificates;

TEST_CASE("trouble of the network is no certificate's fault") {
  const std::string message = GENERATE(
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.2:7701: tcp handshaker "
      "shutdown",
      "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:10.0.0.2:7701: Handshake "
      "read failed",
      "Ssl handshake failed: SSL_ERROR_SYSCALL: Connection reset by peer", "HANDSHAKE_TIMEOUT",
      "Endpoint read failed", "Socket closed", "keepalive watchdog timeout");
  INFO(message);
  CHECK_FALSE(IsAboutCertificates(message));
}

TEST_CASE("who the other end is not, is") {
  const std::string message = GENERATE(
      "Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify failed",
      "UNAUTHENTICATED: Hostname Verification Check failed.",
      "Peer name west is not in peer certificate", "SSL_ERROR_SSL: wrong version number");
  INFO(message);
  CHECK(IsAboutCertificates(message));
}

TEST_CASE("a stream that went with its connection is UNAVAILABLE") {
  const auto code = GENERATE(grpc::StatusCode::UNKNOWN, grpc::StatusCode::INTERNAL);
  CHECK(FromGrpc({code, "Stream removed"}).code() == Code::kUnavailable);
  CHECK(FromGrpc({code, "a bug"}).code() != Code::kUnavailable);
}
}  // namespace grpc_status_test
