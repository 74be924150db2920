#include "client/lib/status_decode.h"

#include <google/rpc/error_details.pb.h>

#include "tests/support/catch.h"
#include "tests/unit/client/fake_daemon.h"
#include "transport/core/reasons.h"

using onecopy::Code;
using onecopy::Status;
using onecopy::client::DecodeStatus;

TEST_CASE("an error's code, reason, message, remedy and refusals survive the wire") {
  const Status sent =
      Status(Code::kFailedPrecondition, onecopy::reasons::kPolicyUnmet, "no path", "allow more")
          .WithRefusals({{"rdma-direct", "NO_RDMA_DEVICE", "none here", "install one"}});
  for (const Status& got : {DecodeStatus(onecopy::testing::EncodeStatus(sent)),
                            DecodeStatus(onecopy::testing::ToGrpc(sent), "the daemon")}) {
    CHECK(got.code() == sent.code());
    CHECK(got.reason() == sent.reason());
    CHECK(got.message() == sent.message());
    CHECK(got.remedy() == sent.remedy());
    CHECK(got.refusals() == sent.refusals());
  }
}

TEST_CASE("success stays success") {
  CHECK(DecodeStatus(google::rpc::Status()).ok());
  CHECK(DecodeStatus(grpc::Status::OK, "the daemon").ok());
}

TEST_CASE("an error without details gets the reason that fits its code, and says who was called") {
  const auto [number, reason] = GENERATE(table<grpc::StatusCode, std::string>({
      {grpc::StatusCode::UNAVAILABLE, "DAEMON_UNREACHABLE"},
      {grpc::StatusCode::DEADLINE_EXCEEDED, "DEADLINE"},
      {grpc::StatusCode::UNIMPLEMENTED, "NOT_SERVED"},
      {grpc::StatusCode::UNAUTHENTICATED, "NO_SESSION"},
      {grpc::StatusCode::PERMISSION_DENIED, "ACCESS_DENIED"},
      {grpc::StatusCode::INVALID_ARGUMENT, "BAD_ARGUMENT"},
      {grpc::StatusCode::OUT_OF_RANGE, "BAD_ARGUMENT"},
      {grpc::StatusCode::INTERNAL, "INTERNAL"},
      {grpc::StatusCode::UNKNOWN, "INTERNAL"},
  }));
  const Status got = DecodeStatus(grpc::Status(number, "broken"), "the daemon");
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

TEST_CASE("details that are foreign or damaged are passed over") {
  google::rpc::Status wire;
  wire.set_code(5);
  wire.set_message("not there");
  google::rpc::ErrorInfo foreign;
  foreign.set_domain("example.com");
  foreign.set_reason("SOMETHING");
  wire.add_details()->PackFrom(foreign);
  auto* damaged = wire.add_details();
  damaged->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  damaged->set_value("\xff\xff\xff");
  wire.add_details()->set_type_url("type.googleapis.com/unknown.Message");
  const Status got = DecodeStatus(wire);
  CHECK(got.code() == Code::kNotFound);
  CHECK(got.reason() == "INTERNAL");
  CHECK(got.message() == "not there");
  CHECK(got.remedy().empty());

  const grpc::Status garbage(grpc::StatusCode::NOT_FOUND, "gone", "\x01garbage");
  CHECK(DecodeStatus(garbage, "the daemon").code() == Code::kNotFound);
}

TEST_CASE("a code that no version has is unknown, not success") {
  google::rpc::Status wire;
  wire.set_code(77);
  CHECK(DecodeStatus(wire).code() == Code::kUnknown);
}
