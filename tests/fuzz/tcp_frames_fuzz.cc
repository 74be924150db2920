// What a peer sends on a lane of the tcp link, and tells over PeerService to set one up.
#include <cstring>
#include <span>

#include "tests/fuzz/fuzz.h"
#include "transport/link/tcp/frame.h"

namespace onecopy::tcp {
namespace {

enum : uint8_t { kHeader, kOffer, kAnswer, kKey, kFailure, kKinds };

void Header(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto header = Decode(std::as_bytes(std::span(bytes)).subspan<0, kHeaderBytes>());
  if (!header) return;
  const HeaderBytes printed = Encode(*header);
  const auto again = Decode(std::span<const std::byte, kHeaderBytes>(printed));
  EXPECT(again);
  EXPECT(again->kind == header->kind && again->tag == header->tag && again->key == header->key);
  EXPECT(again->offset == header->offset && again->bytes == header->bytes);
  if (header->kind == FrameKind::kGet) {
    EXPECT(header->bytes <= kMaxGetBytes);
  }
}

}  // namespace
}  // namespace onecopy::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy::tcp;
  onecopy::fuzz::Input input(data, size);
  switch (input.Byte() % kKinds) {
    case kHeader:
      Header(input.Rest());
      break;
    case kOffer:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeOffer);
      break;
    case kAnswer:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeAnswer);
      break;
    case kKey:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeKey);
      break;
    default: {
      const auto code = input.Get<uint64_t>();
      EXPECT(!DecodeFailure(code, std::as_bytes(std::span(input.Rest()))).ok());
    }
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::tcp;
  std::vector<std::string> seeds;
  for (const FrameKind kind :
       {FrameKind::kHello, FrameKind::kWelcome, FrameKind::kGet, FrameKind::kData, FrameKind::kFail,
        FrameKind::kMessage, FrameKind::kReport}) {
    const HeaderBytes bytes = Encode(FrameHeader{kind, 3, 7, 4096, 512});
    seeds.push_back(For(kHeader, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  seeds.push_back(For(kOffer, Encode(Offer{16, true, false})));
  seeds.push_back(For(kAnswer, Encode(Answer{{1, 2}, 16, true, false, {{"10.0.0.1", 7702}}})));
  seeds.push_back(For(
      kAnswer, Encode(Answer{{1, 2}, 16, true, false, {{"10.0.0.1", 7702}, {"fd00::1", 7703}}})));
  seeds.push_back(For(kKey, Encode(Key{77, "GPU-5f0e"})));
  const Status failure(Code::kPermissionDenied, "ACCESS_DENIED", "not yours", "ask");
  seeds.push_back(For(kFailure, std::string("\7\0\0\0\0\0\0\0", 8) + EncodeFailure(failure)));
  return seeds;
}
