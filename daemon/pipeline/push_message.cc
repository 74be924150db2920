#include "daemon/pipeline/push_message.h"

#include <cassert>

#include "daemon/pipeline/numbers.h"
#include "daemon/pipeline/sum_message.h"

namespace onecopy::pipeline {
namespace {

constexpr size_t kMaxPushReason = 64;
// A bit in the word that has the push's length: the push has a sum.
constexpr uint64_t kHasSum = uint64_t{1} << 63;
constexpr size_t kMaxPushText = Connection::kMaxMessageBytes - kMaxPushReason - 16;

}  // namespace

std::string Encode(std::span<const Push> pushes, bool sums) {
  assert(pushes.size() <= MaxPushes(sums));
  std::string text;
  text.reserve(pushes.size() * PushBytes(sums));
  for (const Push& push : pushes) {
    const uint64_t bytes = push.bytes | (push.sum ? kHasSum : 0);
    for (const uint64_t number : {push.number, push.from, push.to, bytes, push.transfer}) {
      Append(text, number);
    }
    if (sums) AppendSum(text, push.sum.value_or(SmallSum()));
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

std::optional<std::vector<Push>> DecodePushes(std::span<const std::byte> bytes, bool sums) {
  const size_t count = bytes.size() / PushBytes(sums);
  if (bytes.empty() || bytes.size() % PushBytes(sums) != 0 || count > MaxPushes(sums)) {
    return std::nullopt;
  }
  Reader reader(bytes);
  std::vector<Push> pushes(count);
  for (Push& push : pushes) {
    for (uint64_t* number : {&push.number, &push.from, &push.to, &push.bytes, &push.transfer}) {
      *number = reader.Take<uint64_t>();
    }
    if (!sums) continue;
    const SmallSum sum = TakeSum(reader);
    if ((push.bytes & kHasSum) != 0) {
      push.sum = sum;
    } else if (sum != SmallSum()) {
      return std::nullopt;
    }
    push.bytes &= ~kHasSum;
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
