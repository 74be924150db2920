// What a peer tells the ucx link. Where a checksum is over all of it, the input is also given with
// the right one, which a peer can reckon as well as anybody.
#include "tests/fuzz/fuzz.h"
#include "transport/link/ucx/bytes.h"
#include "transport/link/ucx/message.h"
#include "transport/link/ucx/offer.h"

namespace onecopy::ucx {
namespace {

enum : uint8_t { kOffer, kSealed, kKey, kMessage, kExportInfo, kKinds };

std::string Summed(std::string_view text) {
  std::string summed(text);
  Put(summed, Checksum(summed));
  return summed;
}

std::string WithoutSum(const std::string& text) {
  return text.substr(0, text.size() - sizeof(uint64_t));
}

void ReceiveSealed(const std::string& bytes) {
  const Result<std::string> address = Unseal(bytes);
  if (!address.ok()) return;
  EXPECT(address->size() <= kMaxAddressBytes);
  const Result<std::string> again = Unseal(Seal(*address));
  EXPECT(again.ok() && *again == *address);
}

}  // namespace
}  // namespace onecopy::ucx

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy::ucx;
  onecopy::fuzz::Input input(data, size);
  const uint8_t kind = input.Byte() % kKinds;
  const std::string bytes(input.Rest());
  switch (kind) {
    case kOffer:
      for (const std::string& text : {bytes, Summed(bytes)}) {
        onecopy::fuzz::RoundTripOf(text, DecodeOffer);
      }
      break;
    case kSealed:
      ReceiveSealed(bytes);
      ReceiveSealed(Summed(bytes));
      break;
    case kKey:
      onecopy::fuzz::RoundTripOf(bytes, DecodeKey);
      break;
    case kMessage:
      onecopy::fuzz::RoundTrip(bytes, [](const std::string& t) { return DecodeMessage(t); });
      break;
    default:
      onecopy::fuzz::RoundTrip(bytes, [](const std::string& t) { return DecodeExportInfo(t); });
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::ucx;
  const Offer offer{7, "1.22.0", "some-host", true, 4711, 12, "an address", {5, uint64_t{1} << 63}};
  return {For(kOffer, Encode(offer)),
          For(kOffer, WithoutSum(Encode(offer))),
          For(kSealed, Seal("an address")),
          For(kSealed, WithoutSum(Seal("an address"))),
          For(kKey, Encode(KeyName{7, 8})),
          For(kMessage, Encode(Message{MessageKind::kHello, 7, 0, 0, ""})),
          For(kMessage, Encode(Message{MessageKind::kText, 7, 1, 5, "slot 7 is full"})),
          For(kExportInfo, Encode(ExportInfo{0x7f0000000000, 4096, "GPU-5f0e", "packed"}))};
}
