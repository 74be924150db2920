#include "transport/link/ucx/message.h"

#include "transport/link/ucx/bytes.h"

namespace onecopy::ucx {
namespace {

constexpr uint32_t kMark = 0x4d55434f;  // "OCUM"
constexpr size_t kMaxMemoryName = 256;

}  // namespace

std::string Encode(const Message& message) {
  std::string bytes;
  bytes.reserve(40 + message.text.size());
  Put(bytes, kMark);
  Put(bytes, static_cast<uint8_t>(message.kind));
  Put(bytes, message.to);
  Put(bytes, message.sequence);
  Put(bytes, message.key);
  PutText(bytes, message.text);
  return bytes;
}

std::optional<Message> DecodeMessage(std::string_view bytes) {
  ByteReader in(bytes);
  if (in.Take<uint32_t>() != kMark) return std::nullopt;
  const auto kind = in.Take<uint8_t>();
  Message message;
  message.kind = static_cast<MessageKind>(kind);
  message.to = in.Take<EndId>();
  message.sequence = in.Take<uint64_t>();
  message.key = in.Take<uint64_t>();
  message.text = in.TakeText(kMaxText);
  const bool known = kind >= static_cast<uint8_t>(MessageKind::kHello) &&
                     kind <= static_cast<uint8_t>(MessageKind::kPong);
  if (!in.done() || !known) return std::nullopt;
  return message;
}

std::string Encode(const ExportInfo& info) {
  std::string bytes;
  Put(bytes, info.address);
  Put(bytes, info.bytes);
  PutText(bytes, info.memory);
  PutText(bytes, info.rkey);
  return bytes;
}

std::optional<ExportInfo> DecodeExportInfo(std::string_view bytes) {
  ByteReader in(bytes);
  ExportInfo info;
  info.address = in.Take<uint64_t>();
  info.bytes = in.Take<uint64_t>();
  info.memory = in.TakeText(kMaxMemoryName);
  info.rkey = in.TakeText(kMaxText);
  if (!in.done() || info.rkey.empty()) return std::nullopt;
  return info;
}

}  // namespace onecopy::ucx
