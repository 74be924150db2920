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
  FdClient fd_client(bytes);
  if (fd_client.Take<uint32_t>() != kMark) return std::nullopt;
  const auto kind = fd_client.Take<uint8_t>();
  Message message;
  message.kind = static_cast<MessageKind>(kind);
  message.to = fd_client.Take<EndId>();
  message.sequence = fd_client.Take<uint64_t>();
  message.key = fd_client.Take<uint64_t>();
  message.text = fd_client.TakeText(kMaxText);
  const bool known = kind >= static_cast<uint8_t>(MessageKind::kHello) &&
                     kind <= static_cast<uint8_t>(MessageKind::kPong);
  if (!fd_client.done() || !known) return std::nullopt;
  return message;
}

std::string Encode(const Exposing& exposing) {
  std::string bytes;
  Put(bytes, exposing.address);
  Put(bytes, exposing.bytes);
  PutText(bytes, exposing.memory);
  PutText(bytes, exposing.rkey);
  return bytes;
}

std::optional<Exposing> DecodeExposing(std::string_view bytes) {
  FdClient fd_client(bytes);
  Exposing exposing;
  exposing.address = fd_client.Take<uint64_t>();
  exposing.bytes = fd_client.Take<uint64_t>();
  exposing.memory = fd_client.TakeText(kMaxMemoryName);
  exposing.rkey = fd_client.TakeText(kMaxText);
  if (!fd_client.done() || exposing.rkey.empty()) return std::nullopt;
  return exposing;
}

}  // namespace onecopy::ucx
