#include "transport/link/tcp/frame.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/contracts/link.h"

namespace onecopy::tcp {
namespace {

constexpr uint32_t kMagic = 0x3450434f;  // "OCP4": the digit is the version of this format

template <typename T>
void Put(std::byte* at, T number) {
  for (size_t i = 0; i < sizeof number; ++i) at[i] = static_cast<std::byte>(number >> (8 * i));
}

template <typename T>
T Take(const std::byte* at) {
  T number = 0;
  for (size_t i = 0; i < sizeof number; ++i)
    number |= static_cast<T>(static_cast<T>(at[i]) << (8 * i));
  return number;
}

template <typename T>
void Append(std::string& text, T number) {
  std::byte bytes[sizeof number];
  Put(bytes, number);
  text.append(reinterpret_cast<const char*>(bytes), sizeof number);
}

const std::byte* Bytes(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

Status Malformed(std::string_view what) {
  return {Code::kInvalidArgument, reasons::kBadHandle, "malformed tcp " + std::string(what)};
}

// The longest body that may follow a header of this kind.
uint64_t Bound(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
    case FrameKind::kWelcome:
    case FrameKind::kReport:
    case FrameKind::kEnd:
      return 0;
    case FrameKind::kGet:
    case FrameKind::kData:
      return kMaxGetBytes;
    case FrameKind::kFail:
      return kMaxFailBytes;
    case FrameKind::kMessage:
      return Connection::kMaxMessageBytes;
  }
  return 0;
}

bool IsKind(uint8_t number) {
  return number >= static_cast<uint8_t>(FrameKind::kHello) &&
         number <= static_cast<uint8_t>(FrameKind::kEnd);
}

constexpr size_t kOfferBytes = 12;
constexpr size_t kAnswerBytes = 28;  // before the host, or the list of addresses
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxAddressBytes = 64;

// In an offer, and in an answer.
constexpr uint32_t kCanEncrypt = 1;
constexpr uint32_t kMustEncrypt = 2;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kByKernel = 2;

}  // namespace

HeaderBytes Encode(const FrameHeader& header) {
  HeaderBytes bytes{};
  Put(bytes.data(), kMagic);
  bytes[4] = static_cast<std::byte>(header.kind);
  Put(bytes.data() + 8, header.tag);
  Put(bytes.data() + 16, header.key);
  Put(bytes.data() + 24, header.offset);
  Put(bytes.data() + 32, header.bytes);
  return bytes;
}

std::optional<FrameHeader> Decode(std::span<const std::byte, kHeaderBytes> bytes) {
  const auto kind = static_cast<uint8_t>(bytes[4]);
  const bool reserved_clear =
      bytes[5] == std::byte{} && bytes[6] == std::byte{} && bytes[7] == std::byte{};
  if (Take<uint32_t>(bytes.data()) != kMagic || !IsKind(kind) || !reserved_clear)
    return std::nullopt;
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.tag = Take<uint64_t>(bytes.data() + 8);
  header.key = Take<uint64_t>(bytes.data() + 16);
  header.offset = Take<uint64_t>(bytes.data() + 24);
  header.bytes = Take<uint64_t>(bytes.data() + 32);
  if (header.bytes > Bound(header.kind)) return std::nullopt;
  return header;
}

std::string Encode(const Offer& offer) {
  std::string text;
  Append(text, kMagic);
  Append(text, offer.lanes);
  Append(text, (offer.can_encrypt ? kCanEncrypt : 0) | (offer.must_encrypt ? kMustEncrypt : 0));
  return text;
}

Result<Offer> DecodeOffer(const std::string& text) {
  if (text.size() != kOfferBytes || Take<uint32_t>(Bytes(text)) != kMagic)
    return Malformed("offer");
  const auto flags = Take<uint32_t>(Bytes(text) + 8);
  if (flags > (kCanEncrypt | kMustEncrypt)) return Malformed("offer: how it is encrypted");
  const Offer offer{Take<uint32_t>(Bytes(text) + 4), (flags & kCanEncrypt) != 0,
                    (flags & kMustEncrypt) != 0};
  if (offer.lanes == 0 || offer.lanes > kMaxLanes) return Malformed("offer: number of lanes");
  return offer;
}

std::string Encode(const Answer& answer) {
  std::string text;
  Append(text, kMagic);
  Append(text, answer.token.high);
  Append(text, answer.token.low);
  Append(text, answer.lanes);
  Append(text, answer.addresses.front().port);
  Append(text, static_cast<uint16_t>((answer.encrypted ? kEncrypted : 0) |
                                     (answer.by_kernel ? kByKernel : 0)));
  const bool one = answer.addresses.size() == 1;
  return text + (one ? answer.addresses.front().host : os::ToString(answer.addresses));
}

Result<Answer> DecodeAnswer(const std::string& text) {
  if (text.size() < kAnswerBytes ||
      text.size() > kAnswerBytes + kMaxLaneAddresses * kMaxAddressBytes ||
      Take<uint32_t>(Bytes(text)) != kMagic) {
    return Malformed("answer");
  }
  Answer answer;
  answer.token = {Take<uint64_t>(Bytes(text) + 4), Take<uint64_t>(Bytes(text) + 12)};
  answer.lanes = Take<uint32_t>(Bytes(text) + 20);
  const auto flags = Take<uint16_t>(Bytes(text) + 26);
  if (flags > (kEncrypted | kByKernel)) return Malformed("answer: how it is encrypted");
  answer.encrypted = (flags & kEncrypted) != 0;
  answer.by_kernel = (flags & kByKernel) != 0;
  const std::string where = text.substr(kAnswerBytes);
  if (where.find(',') == std::string::npos) {
    answer.addresses = {{where, Take<uint16_t>(Bytes(text) + 24)}};
  } else {
    auto several = os::ParseHostPorts(where);
    if (!several.ok() || several->size() > kMaxLaneAddresses) return Malformed("answer: addresses");
    answer.addresses = std::move(*several);
  }
  if (answer.lanes < answer.addresses.size() || answer.lanes > kMaxLanes) {
    return Malformed("answer: number of lanes");
  }
  return answer;
}

std::string Encode(const Key& key) {
  std::string text;
  Append(text, key.id);
  return text + key.memory;
}

Result<Key> DecodeKey(const std::string& text) {
  if (text.size() < sizeof(uint64_t) || text.size() > sizeof(uint64_t) + kMaxNameBytes) {
    return Malformed("key");
  }
  return Key{Take<uint64_t>(Bytes(text)), text.substr(sizeof(uint64_t))};
}

std::string EncodeFailure(const Status& status) {
  // A remedy in two lines is none of ours.
  std::string body = status.reason().substr(0, 64) + '\n' +
                     status.remedy().substr(0, status.remedy().find('\n')) + '\n' +
                     status.message();
  body.resize(std::min<size_t>(body.size(), kMaxFailBytes));
  return body;
}

Status DecodeFailure(uint64_t code, std::span<const std::byte> body) {
  const std::string text(reinterpret_cast<const char*>(body.data()), body.size());
  const size_t reason = std::min(text.find('\n'), text.size());
  const size_t remedy = std::min(text.find('\n', std::min(reason + 1, text.size())), text.size());
  Code known = CodeFromNumber(code <= 16 ? static_cast<int>(code) : -1);
  if (known == Code::kOk) known = Code::kUnknown;  // a failure cannot be a success
  const auto between = [&text](size_t begin, size_t end) {
    return begin < end ? text.substr(begin, end - begin) : std::string();
  };
  return {known, text.substr(0, reason), between(remedy + 1, text.size()),
          between(reason + 1, remedy)};
}

}  // namespace onecopy::tcp
