#include "daemon/pipeline/push_message.h"

#include <cassert>

#include "daemon/pipeline/numbers.h"

namespace onecopy::pipeline {
namespace {

constexpr size_t kMaxPushReason = 64;
constexpr size_t kMaxPushText = Connection::kMaxMessageBytes - kMaxPushReason - 16;

}  // namespace

std::string Encode(std::span<const Push> pushes) {
  assert(pushes.size() <= kMaxPushes);
  std::string text;
  text.reserve(pushes.size() * kPushBytes);
  for (const Push& push : pushes) {
    for (const uint64_t number : {push.number, push.from, push.to, push.bytes, push.transfer}) {
      Append(text, number);
    }
  }
  return text;
}

std::string Encode(const Pushed& pushed) {
  std::string text;
  Append(text, pushed.number);
  Append(text, static_cast<uint32_t>(pushed.status.code()));
  if (pushed.status.ok()) return text;
  return text + pushed.status.reason().substr(0, kMaxPushReason) + '\n' +
         pushed.status.message().substr(0, kMaxPushText);
}

std::optional<std::vector<Push>> DecodePushes(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % kPushBytes != 0 || bytes.size() / kPushBytes > kMaxPushes) {
    return std::nullopt;
  }
  Reader reader(bytes);
  std::vector<Push> pushes(bytes.size() / kPushBytes);
  for (Push& push : pushes) {
    for (uint64_t* number : {&push.number, &push.from, &push.to, &push.bytes, &push.transfer}) {
      *number = reader.Take<uint64_t>();
    }
  }
  return pushes;
}

std::optional<Pushed> DecodePushed(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Pushed pushed;
  pushed.number = reader.Take<uint64_t>();
  const auto code = reader.Take<uint32_t>();
  if (!reader.good()) return std::nullopt;
  if (code == static_cast<uint32_t>(Code::kOk)) {
    return reader.Done() ? std::optional(pushed) : std::nullopt;
  }
  const std::string text = reader.Rest();
  const size_t line = text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  const Code failure = CodeFromNumber(code <= 16 ? static_cast<int>(code) : -1);
  pushed.status = Status(failure == Code::kOk ? Code::kUnknown : failure, text.substr(0, line),
                         text.substr(line + 1));
  return pushed;
}

}  // namespace onecopy::pipeline
