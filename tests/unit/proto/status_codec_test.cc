#include "proto/codec/status_codec.h"

#include "google/rpc/error_details.pb.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/transfer.pb.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

void CheckEqual(const Status& a, const Status& b) {
  CHECK(a.code() == b.code());
  CHECK(a.reason() == b.reason());
  CHECK(a.message() == b.message());
  CHECK(a.remedy() == b.remedy());
  CHECK(a.refusals() == b.refusals());
}

Status Unmet(size_t refusals, size_t text_bytes) {
  std::vector<Refusal> list;
  for (size_t i = 0; i < refusals; ++i) {
    list.push_back({"path-" + std::to_string(i), "NO_RDMA_DEVICE", std::string(text_bytes, 'd'),
                    std::string(text_bytes, 'r')});
  }
  return Status(Code::kFailedPrecondition, reasons::kPolicyUnmet, "no path is acceptable",
                "accept more copies")
      .WithRefusals(std::move(list));
}

Status OverTheWire(const Status& status) {
  return DecodeStatus(static_cast<int>(status.code()), status.message(),
                      EncodeStatusDetails(status));
}

// Bytes of the trailers of this error as gRPC counts them.
size_t TrailerBytes(const Status& status) {
  const std::string details = EncodeStatusDetails(status);
  google::rpc::Status proto;
  REQUIRE(proto.ParseFromString(details));
  size_t message = 0;
  for (const char c : proto.message()) message += c < 0x20 || c > 0x7e ? 3 : 1;
  return (details.size() + 2) / 3 * 4 + message;
}

}  // namespace

TEST_CASE("an error keeps its code, reason, message, remedy and refusals") {
  const Status status = Unmet(11, 120);
  CheckEqual(FromProto(ToProto(status)), status);
  CheckEqual(OverTheWire(status), status);
  for (int code = 1; code <= 16; ++code) {
    const Status plain(CodeFromNumber(code), "SOME_REASON", "what failed", "");
    CheckEqual(FromProto(ToProto(plain)), plain);
    CheckEqual(OverTheWire(plain), plain);
  }
}

TEST_CASE("success stays success") {
  CHECK(FromProto(ToProto(OkStatus())).ok());
  CHECK(FromProto(google::rpc::Status()).ok());
  CHECK(DecodeStatus(0, "", EncodeStatusDetails(Unmet(1, 1))).ok());
}

TEST_CASE("errors carry the standard details, for clients in any language") {
  const google::rpc::Status proto = ToProto(Unmet(2, 10));
  REQUIRE(proto.details_size() == 2);
  google::rpc::ErrorInfo info;
  REQUIRE(proto.details(0).UnpackTo(&info));
  CHECK(info.domain() == "onecopy");
  CHECK(info.reason() == "POLICY_UNMET");
  CHECK(info.metadata().at("remedy") == "accept more copies");
  v1::RefusalList list;
  REQUIRE(proto.details(1).UnpackTo(&list));
  CHECK(list.refused_size() == 2);
}

TEST_CASE("details that are absent, foreign or nonsense leave an error without reason") {
  const Status bare = DecodeStatus(14, "Socket closed", "");
  CHECK(bare.code() == Code::kUnavailable);
  CHECK(bare.message() == "Socket closed");
  CHECK(bare.reason().empty());
  CheckEqual(DecodeStatus(14, "Socket closed", "\xff\xff nonsense"), bare);

  google::rpc::Status foreign;
  google::rpc::ErrorInfo info;
  info.set_domain("example.com");
  info.set_reason("THEIRS");
  foreign.add_details()->PackFrom(info);
  google::protobuf::Any* unreadable = foreign.add_details();
  unreadable->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
  unreadable->set_value("\xff");
  foreign.add_details()->set_type_url("type.googleapis.com/no.such.Message");
  CheckEqual(DecodeStatus(14, "Socket closed", foreign.SerializeAsString()), bare);
}

TEST_CASE("numbers that are no code become UNKNOWN") {
  for (const int code : {-1, 17, 1 << 30}) {
    CHECK(DecodeStatus(code, "odd", "").code() == Code::kUnknown);
    google::rpc::Status proto;
    proto.set_code(code);
    CHECK(FromProto(proto).code() == Code::kUnknown);
  }
}

TEST_CASE("long refusals are shortened evenly until the trailers fit, and none is lost") {
  const Status status = Unmet(11, 2000);
  const Status back = OverTheWire(status);
  REQUIRE(back.refusals().size() == 11);
  const size_t kept = back.refusals().front().detail.size();
  CHECK(kept > 100);
  for (size_t i = 0; i < 11; ++i) {
    CHECK(back.refusals()[i].path == status.refusals()[i].path);
    CHECK(back.refusals()[i].reason == status.refusals()[i].reason);
    CHECK(back.refusals()[i].detail.size() == kept);
  }
  CHECK(TrailerBytes(status) <= 8192 - 512);
  CHECK(TrailerBytes(status) > 7000);
}

TEST_CASE("no error is too long for the trailers") {
  const Status many = Unmet(1000, 10);
  CHECK(TrailerBytes(many) <= 8192 - 512);
  CHECK(OverTheWire(many).refusals().size() > 100);

  std::string euros;
  for (int i = 0; i < 2000; ++i) euros += "\xe2\x82\xac";
  const Status wordy = Status(Code::kInternal, "INTERNAL", euros, euros);
  CHECK(TrailerBytes(wordy) <= 8192 - 512);
  CHECK(FromProto(ToProto(wordy)).message().size() <= kMaxMessageBytes);
  CHECK(TrailerBytes(wordy.WithRefusals(many.refusals())) <= 8192 - 512);
}

TEST_CASE("text that is no UTF-8 does not make an error unreadable") {
  const Status status(Code::kNotFound, "FILE_NOT_FOUND", "no file \xff\xfe", "look at \xff");
  const Status back = OverTheWire(status.WithRefusals({{"\xff", "R", "\xff", "\xff"}}));
  CHECK(back.reason() == "FILE_NOT_FOUND");
  CHECK(back.remedy() == "look at ?");
  CHECK(back.refusals() == std::vector<Refusal>{{"?", "R", "?", "?"}});
  CHECK(FromProto(ToProto(status)).message() == "no file ??");
}
