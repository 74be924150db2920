#include "daemon/pipeline/message.h"

#include <algorithm>

#include "daemon/pipeline/numbers.h"

namespace onecopy::pipeline {
namespace {

enum class Kind : uint8_t {
  kFull = 1,
  kFree = 2,
  kFailed = 3,
  kReady = 4,
  kWaiting = 5,
  kPart = 16,      // the beginning of a long message, or more of it
  kLastPart = 17,  // its end
};

constexpr size_t kMaxReason = 64;
constexpr size_t kMaxRemedy = 256;
constexpr size_t kMaxText = Connection::kMaxMessageBytes - kMaxReason - kMaxRemedy - 16;
constexpr size_t kMaxSteps = 8;
constexpr size_t kMaxStepText = 255;
constexpr size_t kMaxJoined = 64 * 1024;  // the longest keys take a few thousand

void AppendText(std::string& text, const std::string& part, size_t most) {
  const std::string cut = part.substr(0, most);
  Append(text, static_cast<uint16_t>(cut.size()));
  text += cut;
}

std::string TakeText(Reader& reader) { return reader.TakeBytes(reader.Take<uint16_t>()); }

void AppendStep(std::string& text, const Step& step) {
  for (const std::string* part : {&step.from, &step.to, &step.by}) {
    AppendText(text, *part, kMaxStepText);
  }
  Append(text, static_cast<uint8_t>((step.loopback ? 1 : 0) | (step.emulated ? 2 : 0)));
}

Step TakeStep(Reader& reader) {
  Step step;
  step.from = TakeText(reader);
  step.to = TakeText(reader);
  step.by = TakeText(reader);
  const auto flags = reader.Take<uint8_t>();
  step.loopback = (flags & 1) != 0;
  step.emulated = (flags & 2) != 0;
  return step;
}

FullMessage TakeFull(Reader& reader) {
  FullMessage full;
  full.index = reader.Take<uint32_t>();
  full.offset = reader.Take<uint64_t>();
  full.bytes = reader.Take<uint64_t>();
  full.key = reader.Rest();
  return full;
}

FailedMessage TakeFailed(Reader& reader) {
  const auto number = reader.Take<uint32_t>();
  Code code = CodeFromNumber(number <= 16 ? static_cast<int>(number) : -1);
  if (code == Code::kOk) code = Code::kUnknown;
  const std::string reason = TakeText(reader);
  const std::string message = TakeText(reader);
  return {Status(code, reason, message, TakeText(reader))};
}

ReadyMessage TakeReady(Reader& reader) {
  ReadyMessage ready;
  ready.slot_bytes = reader.Take<uint64_t>();
  const auto steps = reader.Take<uint8_t>();
  for (size_t i = 0; i < std::min<size_t>(steps, kMaxSteps); ++i) {
    ready.steps.push_back(TakeStep(reader));
  }
  ready.key = reader.Rest();
  return ready;
}

WaitingMessage TakeWaiting(Reader& reader) {
  WaitingMessage waiting;
  waiting.what = reader.Take<uint8_t>() == static_cast<uint8_t>(WaitingMessage::For::kMemory)
                     ? WaitingMessage::For::kMemory
                     : WaitingMessage::For::kSlots;
  waiting.ahead = reader.Take<uint32_t>();
  return waiting;
}

struct Encoder {
  void operator()(const FullMessage& full) {
    Append(text, static_cast<uint8_t>(Kind::kFull));
    Append(text, full.index);
    Append(text, full.offset);
    Append(text, full.bytes);
    text += full.key;
  }
  void operator()(const FreeMessage& free) {
    Append(text, static_cast<uint8_t>(Kind::kFree));
    Append(text, free.index);
  }
  void operator()(const FailedMessage& failed) {
    Append(text, static_cast<uint8_t>(Kind::kFailed));
    Append(text, static_cast<uint32_t>(failed.status.code()));
    AppendText(text, failed.status.reason(), kMaxReason);
    AppendText(text, failed.status.message(), kMaxText);
    AppendText(text, failed.status.remedy(), kMaxRemedy);
  }
  void operator()(const ReadyMessage& ready) {
    Append(text, static_cast<uint8_t>(Kind::kReady));
    Append(text, ready.slot_bytes);
    const size_t steps = std::min(ready.steps.size(), kMaxSteps);
    Append(text, static_cast<uint8_t>(steps));
    for (size_t i = 0; i < steps; ++i) AppendStep(text, ready.steps[i]);
    text += ready.key;
  }
  void operator()(const WaitingMessage& waiting) {
    Append(text, static_cast<uint8_t>(Kind::kWaiting));
    Append(text, static_cast<uint8_t>(waiting.what));
    Append(text, waiting.ahead);
  }

  std::string text;
};

}  // namespace

std::string Encode(const Message& message) {
  Encoder encoder;
  std::visit(encoder, message);
  return std::move(encoder.text);
}

std::optional<Message> Decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::optional<Message> message;
  switch (static_cast<Kind>(reader.Take<uint8_t>())) {
    case Kind::kFull:
      message = TakeFull(reader);
      break;
    case Kind::kFree:
      message = FreeMessage{reader.Take<uint32_t>()};
      break;
    case Kind::kFailed:
      message = TakeFailed(reader);
      break;
    case Kind::kReady:
      message = TakeReady(reader);
      break;
    case Kind::kWaiting:
      message = TakeWaiting(reader);
      break;
    case Kind::kPart:
    case Kind::kLastPart:
      return std::nullopt;
  }
  if (!reader.Done()) return std::nullopt;
  return message;
}

std::vector<std::string> Split(std::string message) {
  std::vector<std::string> parts;
  if (message.size() <= Connection::kMaxMessageBytes) {
    parts.push_back(std::move(message));
    return parts;
  }
  constexpr size_t kPart = Connection::kMaxMessageBytes - 1;
  for (size_t at = 0; at < message.size(); at += kPart) {
    const bool last = message.size() - at <= kPart;
    parts.emplace_back(1, static_cast<char>(last ? Kind::kLastPart : Kind::kPart));
    parts.back() += message.substr(at, kPart);
  }
  return parts;
}

std::optional<bool> Joiner::Add(std::span<const std::byte> bytes, std::string* text) {
  if (bytes.empty()) return std::nullopt;
  const auto kind = static_cast<Kind>(bytes[0]);
  const bool part = kind == Kind::kPart || kind == Kind::kLastPart;
  if (part) bytes = bytes.subspan(1);
  const std::string_view now(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!part) {
    text->assign(now);
    return true;
  }
  if (parts_.size() + now.size() > kMaxJoined) return std::nullopt;
  parts_ += now;
  if (kind == Kind::kPart) return false;
  *text = std::exchange(parts_, {});
  return true;
}

}  // namespace onecopy::pipeline
