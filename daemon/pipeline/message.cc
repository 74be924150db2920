#include "daemon/pipeline/message.h"

#include <algorithm>

#include "daemon/pipeline/numbers.h"
#include "transport/core/link.h"

namespace onecopy::pipeline {
namespace {

enum class Kind : uint8_t { kFull = 1, kFree = 2, kFailed = 3 };

constexpr size_t kMostReason = 64;
constexpr size_t kMostText = Connection::kMaxMessageBytes - kMostReason - 16;

}  // namespace

std::string Encode(const Message& message) {
  std::string text;
  if (const auto* full = std::get_if<FullMessage>(&message)) {
    Append(text, static_cast<uint8_t>(Kind::kFull));
    Append(text, full->index);
    Append(text, full->offset);
    Append(text, full->bytes);
  } else if (const auto* free = std::get_if<FreeMessage>(&message)) {
    Append(text, static_cast<uint8_t>(Kind::kFree));
    Append(text, free->index);
  } else {
    const Status& status = std::get<FailedMessage>(message).status;
    Append(text, static_cast<uint8_t>(Kind::kFailed));
    Append(text, static_cast<uint32_t>(status.code()));
    text += status.reason().substr(0, kMostReason) + '\n' + status.message().substr(0, kMostText);
  }
  return text;
}

std::optional<Message> Decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  switch (static_cast<Kind>(reader.Take<uint8_t>())) {
    case Kind::kFull: {
      FullMessage full;
      full.index = reader.Take<uint32_t>();
      full.offset = reader.Take<uint64_t>();
      full.bytes = reader.Take<uint64_t>();
      if (!reader.Done()) return std::nullopt;
      return full;
    }
    case Kind::kFree: {
      const FreeMessage free{reader.Take<uint32_t>()};
      if (!reader.Done()) return std::nullopt;
      return free;
    }
    case Kind::kFailed: {
      const auto number = reader.Take<uint32_t>();
      if (!reader.good()) return std::nullopt;
      Code code = CodeFromNumber(number <= 16 ? static_cast<int>(number) : -1);
      if (code == Code::kOk) code = Code::kUnknown;
      const std::string text = reader.Rest();
      const size_t line = std::min(text.find('\n'), text.size());
      return FailedMessage{
          Status(code, text.substr(0, line), line < text.size() ? text.substr(line + 1) : "")};
    }
  }
  return std::nullopt;
}

}  // namespace onecopy::pipeline
