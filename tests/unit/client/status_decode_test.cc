#include "client/lib/calls/status_decode.h"

#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "tests/support/catch.h"

namespace status_decode_test {
using onecopy::Code;
using onecopy::Status;
using onecopy::client::DecodeStatus;

TEST_CASE("a daemon's error comes through a call in its own words") {
  const Status sent =
      Status(Code::kFailedPrecondition, onecopy::reasons::kPolicyUnmet, "no path", "allow more")
          .WithRefusals({{"rdma-direct", "NO_RDMA_DEVICE", "none here", "install one"}});
  const grpc::Status wire(static_cast<grpc::StatusCode>(sent.code()), sent.message(),
                          onecopy::EncodeStatusDetails(sent));
  const Status got = DecodeStatus(wire, "the daemon");
  CHECK(got.code() == sent.code());
  CHECK(got.reason() == sent.reason());
  CHECK(got.message() == sent.message());
  CHECK(got.remedy() == sent.remedy());
  CHECK(got.refusals() == sent.refusals());
  CHECK(DecodeStatus(grpc::Status::OK, "the daemon").ok());
}

TEST_CASE("an error that gRPC made gets the reason that fits its code, and says who was called") {
  const std::string details = GENERATE("", "\x01garbage");
  const auto [number, reason] = GENERATE(table<grpc::StatusCode, std::string>({
      {grpc::StatusCode::UNAVAILABLE, "DAEMON_UNREACHABLE"},
      {grpc::StatusCode::DEADLINE_EXCEEDED, "DEADLINE"},
      {grpc::StatusCode::UNIMPLEMENTED, "NOT_SERVED"},
      {grpc::StatusCode::UNAUTHENTICATED, "NO_SESSION"},
      {grpc::StatusCode::PERMISSION_DENIED, "ACCESS_DENIED"},
      {grpc::StatusCode::INVALID_ARGUMENT, "BAD_ARGUMENT"},
      {grpc::StatusCode::OUT_OF_RANGE, "BAD_ARGUMENT"},
      {grpc::StatusCode::NOT_FOUND, "INTERNAL"},
      {grpc::StatusCode::INTERNAL, "INTERNAL"},
      {grpc::StatusCode::UNKNOWN, "INTERNAL"},
  }));
  const Status got = DecodeStatus(grpc::Status(number, "broken", details), "the daemon");
  CHECK(static_cast<int>(got.code()) == static_cast<int>(number));
  CHECK(got.reason() == reason);
  CHECK(got.message().find("the daemon") == 0);
  CHECK(got.message().find("broken") != std::string::npos);
}

TEST_CASE("a call that the server dropped means that the daemon has gone") {
  const Status got = DecodeStatus(grpc::Status(grpc::StatusCode::CANCELLED, ""), "the daemon");
  CHECK(got.code() == Code::kUnavailable);
  CHECK(got.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a connection that went under the call means that, whatever gRPC calls it") {
  const std::string said = GENERATE("Stream removed", "Received RST_STREAM with error code 2");
  const auto code = GENERATE(grpc::StatusCode::UNKNOWN, grpc::StatusCode::INTERNAL);
  const Status got = DecodeStatus(grpc::Status(code, said), "the daemon");
  CHECK(got.code() == Code::kUnavailable);
  CHECK(got.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(got.message().find(said) != std::string::npos);
}
}  // namespace status_decode_test
