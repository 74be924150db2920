#include "daemon/rpc/serving/decoded_bytes.h"

#include <string>

#include "daemon/rpc/serving/charged.h"
#include "daemon/rpc/serving/received.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/transfer.pb.h"
#include "tests/support/catch.h"

namespace decoded_bytes_test {
namespace {

using namespace onecopy;
using Request = v1::CreateTransferRequest;

rpc::Received<Request> Receive(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return rpc::Received<Request>(grpc::ByteBuffer(&slice, 1));
}

std::string Times(int count, const std::string& part) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

void CheckRefused(const std::string& bytes, std::string_view reason) {
  auto received = Receive(bytes);
  CHECK(received.Read().status().reason() == reason);
  CHECK(received.fields().ByteSizeLong() == 0);
}

}  // namespace

TEST_CASE("a request whose few bytes become much memory is refused before it is decoded") {
  Request request;
  request.add_more_sources();  // empty
  CheckRefused(Times(2'000'000, request.SerializeAsString()), reasons::kBadSize);
  const std::string unknown_number = {'\xf8', '\x7f', 1};  // field 2047
  const std::string unknown_text = {'\xfa', '\x7f', 0};
  CheckRefused(Times(1'000'000, unknown_number), reasons::kBadSize);
  CheckRefused(Times(1'000'000, unknown_text), reasons::kBadSize);
  request.Clear();
  for (int i = 0; i < 5'000'000; ++i) request.mutable_source_ranges()->add_bytes(1);
  CheckRefused(request.SerializeAsString(), reasons::kBadSize);
}

TEST_CASE(
    "bytes that are no request are refused at any length, also where protobuf would not look") {
  Request request;
  request.mutable_source()->set_buffer(std::string(100'000, 'b'));
  const std::string whole = request.SerializeAsString();
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{5}, whole.size() - 1}) {
    CheckRefused(whole.substr(0, cut), reasons::kBadArgument);
  }
  const std::string group = {'\xfb', '\x7f', '\xfc', '\x7f'};
  CheckRefused(group, reasons::kBadArgument);
  // A message that says that it is longer than the one around it.
  CheckRefused({'\x12', 3, '\x12', 9, 'x', 'y', 'z'}, reasons::kBadArgument);
}

TEST_CASE(
    "the estimate is no less than what a decoded request takes, and the payer is charged for it") {
  Request request;
  const auto check = [&] {
    auto received = Receive(request.SerializeAsString());
    REQUIRE_OK(received.Read());
    CHECK(received.decoded_bytes() >= received.fields().SpaceUsedLong());
    CHECK(rpc::BytesOf(received) >= received.decoded_bytes());
  };
  check();
  for (int i = 0; i < 4096; ++i) {
    v1::Endpoint& end = *request.add_more_sources();
    if (i % 2 == 0) end.set_buffer("b" + std::to_string(i));
  }
  check();
  for (uint64_t i = 0; i < kMaxRanges; ++i) {
    for (v1::Ranges* ranges :
         {request.mutable_source_ranges(), request.mutable_destination_ranges()}) {
      ranges->add_offset_bytes(i << 40);
      ranges->add_bytes(i + 1);
    }
  }
  check();
}
}  // namespace decoded_bytes_test
