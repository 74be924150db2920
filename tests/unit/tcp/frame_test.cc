// What travels on a lane and over PeerService for the tcp link, byte by byte.
#include "transport/link/tcp/frame.h"

#include <limits>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "transport/core/contracts/link.h"

using namespace onecopy;
using namespace onecopy::tcp;

namespace {

constexpr uint64_t kHighest = std::numeric_limits<uint64_t>::max();

struct Bounded {
  FrameKind kind;
  uint64_t most;  // bytes of body
};
constexpr Bounded kKindsOfFrame[] = {
    {FrameKind::kHello, 0},
    {FrameKind::kWelcome, 0},
    {FrameKind::kGet, kMaxGetBytes},
    {FrameKind::kData, kMaxGetBytes},
    {FrameKind::kFail, kMaxFailBytes},
    {FrameKind::kMessage, Connection::kMaxMessageBytes},
    {FrameKind::kReport, 0},
    {FrameKind::kEnd, 0},
};

std::optional<FrameHeader> Again(const FrameHeader& header) { return Decode(Encode(header)); }

}  // namespace

TEST_CASE("a header of every kind is read as it was written, up to the bound of its body") {
  for (const auto& [kind, most] : kKindsOfFrame) {
    CAPTURE(static_cast<int>(kind));
    for (const uint64_t bytes : {uint64_t{0}, most}) {
      const auto read = Again({kind, 1, kHighest, kHighest - 1, bytes});
      REQUIRE(read.has_value());
      CHECK(read->kind == kind);
      CHECK(read->tag == 1);
      CHECK(read->key == kHighest);
      CHECK(read->offset == kHighest - 1);
      CHECK(read->bytes == bytes);
    }
    CHECK_FALSE(Again({kind, 1, 2, 3, most + 1}).has_value());
    CHECK_FALSE(Again({kind, 1, 2, 3, kHighest}).has_value());
  }
}

// Another machine reads these, with another byte order perhaps.
TEST_CASE("a header's bytes are where the protocol has them") {
  const HeaderBytes bytes = Encode({FrameKind::kGet, 0x0102030405060708, 0x11, 0x2200, 0x330000});
  std::vector<unsigned> numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<unsigned>(byte));
  CHECK(numbers == std::vector<unsigned>{'O',  'C',  'P',  '4', 3, 0, 0, 0,  //
                                         8,    7,    6,    5,   4, 3, 2, 1,  //
                                         0x11, 0,    0,    0,   0, 0, 0, 0,  //
                                         0,    0x22, 0,    0,   0, 0, 0, 0,  //
                                         0,    0,    0x33, 0,   0, 0, 0, 0});
}

TEST_CASE("what is no header of this version is not read as one") {
  const HeaderBytes good = Encode({FrameKind::kEnd, 7, 0, 0, 0});
  REQUIRE(Decode(good).has_value());
  const auto with = [&](size_t at, int value) {
    HeaderBytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return Decode(bytes);
  };
  for (size_t at = 0; at < 4; ++at) CHECK_FALSE(with(at, 'x').has_value());
  CHECK_FALSE(with(4, 0).has_value());
  CHECK_FALSE(with(4, static_cast<int>(FrameKind::kEnd) + 1).has_value());
  CHECK_FALSE(with(4, 255).has_value());
  for (size_t reserved = 5; reserved < 8; ++reserved) CHECK_FALSE(with(reserved, 1).has_value());
}

TEST_CASE("an offer is read as it was written, and refused where it is none") {
  for (const uint32_t lanes : {1U, kMaxLanes}) {
    for (const bool can : {false, true}) {
      for (const bool must : {false, true}) {
        const Result<Offer> read = DecodeOffer(Encode(Offer{lanes, can, must}));
        REQUIRE_OK(read);
        CHECK(read->lanes == lanes);
        CHECK(read->can_encrypt == can);
        CHECK(read->must_encrypt == must);
      }
    }
  }
  const std::string good = Encode(Offer{4, true, false});
  std::string flags = good;
  flags[8] = 4;
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "x", std::string(good.size(), 'x'), flags,
        Encode(Offer{0, false, false}), Encode(Offer{kMaxLanes + 1, false, false})}) {
    CHECK(DecodeOffer(bad).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("an answer is read as it was written, and refused where it is none") {
  Answer answer{{kHighest, 1}, 16, true, true, {}};
  using Addresses = std::vector<os::HostPort>;
  for (const Addresses& addresses :
       {Addresses{{"", 65535}}, Addresses{{"fe80::1%eth0", 1}},
        Addresses{{"10.0.0.1", 7702}, {"fd00::1", 7703}}, Addresses{{std::string(512, 'h'), 1}}}) {
    answer.addresses = addresses;
    const Result<Answer> read = DecodeAnswer(Encode(answer));
    REQUIRE_OK(read);
    CHECK(read->token == answer.token);
    CHECK(read->lanes == answer.lanes);
    CHECK(read->encrypted);
    CHECK(read->by_kernel);
    CHECK(read->addresses == addresses);
  }
  Answer few = answer;
  few.lanes = 0;
  Answer many = answer;
  many.lanes = kMaxLanes + 1;
  Answer lonely = answer;  // an address without a lane
  lonely.lanes = 1;
  lonely.addresses = {{"10.0.0.1", 7702}, {"10.0.0.2", 7702}};
  std::string flags = Encode(answer);
  flags[26] = 4;
  Answer crowd = answer;
  crowd.addresses.clear();
  for (uint16_t port = 0; port <= kMaxLaneAddresses; ++port) {
    crowd.addresses.push_back({"h", port});
  }
  const std::string head = Encode(answer).substr(0, 28);
  for (const std::string& bad :
       {std::string(), head.substr(0, 27), std::string(60, 'x'), flags, Encode(few), Encode(many),
        Encode(lonely), Encode(answer) + "h", Encode(crowd), head + ",", head + "a:1,",
        head + ",a:1", head + "a:1,b", head + "a:1,a:1", head + "a:1,b:65536"}) {
    CHECK(DecodeAnswer(bad).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("a key is a number and the memory's name, which is bounded") {
  for (const std::string& name : {std::string(), std::string("cuda:0"), std::string(256, 'm')}) {
    const Result<Key> read = DecodeKey(Encode(Key{kHighest, name}));
    REQUIRE_OK(read);
    CHECK(read->id == kHighest);
    CHECK(read->memory == name);
  }
  for (const std::string& bad : {std::string(), std::string(7, 'k'), std::string(8 + 257, 'k')}) {
    CHECK(DecodeKey(bad).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("a failure arrives with its code, reason, remedy and text, cut to its bound") {
  const Status said(Code::kPermissionDenied, reasons::kNotOwner, "two\nlines");
  const auto read = [](const Status& status) {
    const std::string body = EncodeFailure(status);
    CHECK(body.size() <= kMaxFailBytes);
    return DecodeFailure(static_cast<uint64_t>(status.code()), std::as_bytes(std::span(body)));
  };
  CHECK(read(said).code() == Code::kPermissionDenied);
  CHECK(read(said).reason() == reasons::kNotOwner);
  CHECK(read(said).message() == "two\nlines");
  CHECK(read(said).remedy().empty());
  const Status mendable(Code::kAborted, reasons::kMemoryFault, "two\nlines", "register it anew");
  CHECK(read(mendable).message() == "two\nlines");
  CHECK(read(mendable).remedy() == "register it anew");
  const Status late = read({Code::kUnavailable, reasons::kLinkDown, std::string(5000, 't')});
  CHECK(late.reason() == reasons::kLinkDown);
  CHECK(late.message() == std::string(kMaxFailBytes - late.reason().size() - 2, 't'));
}

TEST_CASE("a failure is one, whatever its number and its text") {
  for (const uint64_t code : {uint64_t{0}, uint64_t{17}, uint64_t{1} << 32, kHighest}) {
    CHECK(DecodeFailure(code, {}).code() == Code::kUnknown);
  }
  const std::string plain = "no line break";
  const Status status = DecodeFailure(14, std::as_bytes(std::span(plain)));
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == plain);
  CHECK(status.message().empty());
}
