#include "transport/link/ucx/offer.h"

#include "onecopy/reasons.h"
#include "transport/link/ucx/bytes.h"

namespace onecopy::ucx {
namespace {

constexpr uint32_t kOfferMark = 0x3155434f;    // "OCU1"
constexpr uint32_t kAddressMark = 0x4155434f;  // "OCUA"
constexpr uint32_t kKeyMark = 0x4b55434f;      // "OCUK"
constexpr size_t kMaxOfferText = 256;

Status Malformed(const char* what) {
  return {Code::kInvalidArgument, reasons::kBadHandle,
          std::string("a malformed ucx ") + what + " from the peer"};
}

// Takes the checksum off the end; false where it is wrong.
bool TakeChecksum(std::string_view& text) {
  if (text.size() < sizeof(uint64_t)) return false;
  const size_t body = text.size() - sizeof(uint64_t);
  if (ByteReader(text.substr(body)).Take<uint64_t>() != Checksum(text.substr(0, body)))
    return false;
  text.remove_suffix(sizeof(uint64_t));
  return true;
}

}  // namespace

std::string Encode(const Offer& offer) {
  std::string text;
  Put(text, kOfferMark);
  Put(text, offer.end);
  PutText(text, offer.version);
  PutText(text, offer.host);
  Put(text, static_cast<uint8_t>(offer.network ? 1 : 0));
  Put(text, offer.process);
  Put(text, offer.descriptor);
  PutText(text, offer.address);
  Put(text, static_cast<uint8_t>(offer.lost.size()));
  for (const EndId end : offer.lost) Put(text, end);
  Put(text, Checksum(text));
  return text;
}

Result<Offer> DecodeOffer(std::string_view text) {
  if (!TakeChecksum(text)) return Malformed("offer");
  ByteReader in(text);
  if (in.Take<uint32_t>() != kOfferMark) return Malformed("offer");
  Offer offer;
  offer.end = in.Take<EndId>();
  offer.version = in.TakeText(kMaxOfferText);
  offer.host = in.TakeText(kMaxOfferText);
  const auto network = in.Take<uint8_t>();
  offer.network = network != 0;
  offer.process = in.Take<uint32_t>();
  offer.descriptor = in.Take<uint32_t>();
  offer.address = in.TakeText(kMaxAddressBytes + 64);
  const size_t lost = in.Take<uint8_t>();
  if (lost > kMaxLostEnds) return Malformed("offer");
  for (size_t i = 0; i < lost; ++i) offer.lost.push_back(in.Take<EndId>());
  if (!in.done() || network > 1) return Malformed("offer");
  return offer;
}

std::string Seal(std::string_view address) {
  std::string text;
  Put(text, kAddressMark);
  PutText(text, address);
  Put(text, Checksum(text));
  return text;
}

Result<std::string> Unseal(std::string_view sealed) {
  if (!TakeChecksum(sealed)) return Malformed("address");
  ByteReader in(sealed);
  if (in.Take<uint32_t>() != kAddressMark) return Malformed("address");
  std::string address(in.TakeText(kMaxAddressBytes));
  if (!in.done() || address.empty()) return Malformed("address");
  return address;
}

std::string Encode(const KeyName& key) {
  std::string text;
  Put(text, kKeyMark);
  Put(text, key.reader);
  Put(text, key.exported);
  return text;
}

Result<KeyName> DecodeKey(std::string_view text) {
  ByteReader in(text);
  const auto mark = in.Take<uint32_t>();
  KeyName key;
  key.reader = in.Take<EndId>();
  key.exported = in.Take<uint64_t>();
  if (mark != kKeyMark || !in.done()) return Malformed("key");
  return key;
}

}  // namespace onecopy::ucx
