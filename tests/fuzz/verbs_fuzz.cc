// What a peer tells the verbs link: over PeerService to set a connection up, and in frames on it.
#include <span>

#include "tests/fuzz/fuzz.h"
#include "transport/link/verbs/control.h"
#include "transport/link/verbs/offer.h"

namespace onecopy::verbs {
namespace {

enum : uint8_t { kOffer, kAnswer, kKey, kFrame, kAddress, kKinds };

void ReceiveFrame(std::string_view bytes) {
  const auto frame = DecodeFrame(std::as_bytes(std::span(bytes)));
  if (!frame) return;
  EXPECT(bytes.size() <= kMaxFrameBytes);
  EXPECT(Encode(*frame) == bytes);
}

void ReceiveAddress(std::string_view bytes) {
  Reader in(bytes);
  QueuePairAddress address;
  if (!GetAddress(in, &address)) return;
  Writer out;
  PutAddress(out, address);
  const std::string printed = out.Take();
  Reader again(printed);
  QueuePairAddress same;
  EXPECT(GetAddress(again, &same) && again.AtEnd());
}

QueuePairAddress Sample() {
  QueuePairAddress address;
  address.nic = "mlx5_0";
  address.fabric = "fabric";
  address.ethernet = true;
  address.gid[0] = 0xfe;
  address.gid[15] = 1;
  address.lid = 3;
  address.number = 0x1234;
  address.packet_sequence = 0x4321;
  address.mtu_bytes = 4096;
  address.reads = 16;
  return address;
}

}  // namespace
}  // namespace onecopy::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy::verbs;
  onecopy::fuzz::Input input(data, size);
  switch (input.Byte() % kKinds) {
    case kOffer:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeOffer);
      break;
    case kAnswer:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeAnswer);
      break;
    case kKey:
      onecopy::fuzz::RoundTripOf(input.Rest(), DecodeKey);
      break;
    case kFrame:
      ReceiveFrame(input.Rest());
      break;
    default:
      ReceiveAddress(input.Rest());
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::verbs;
  Key key;
  key.id = 5;
  key.memory = "GPU-5f0e";
  key.registration = "dma-buf";
  key.bytes = 1 << 20;
  key.lanes = {{17, 0x7f0000000000}, {0, 0}};
  Writer address;
  PutAddress(address, Sample());
  return {For(kOffer, Encode(Offer{{Sample(), Sample()}})),
          For(kAnswer, Encode(Answer{{{true, Sample()}, {false, {}}}})),
          For(kKey, Encode(key)),
          For(kFrame, Encode(Frame{FrameKind::kHello, 0, 0, ""})),
          For(kFrame, Encode(Frame{FrameKind::kMessage, 5, 77, "slot 7 is full"})),
          For(kFrame, Encode(Frame{FrameKind::kBye, 6, 0, "enough"})),
          For(kAddress, address.Take())};
}
