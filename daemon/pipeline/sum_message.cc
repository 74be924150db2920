#include "daemon/pipeline/sum_message.h"

#include <algorithm>
#include <cassert>

namespace onecopy::pipeline {
namespace {

constexpr size_t kAskedBytes = 24;
constexpr size_t kToldBytes = 32;
static_assert(kToldBytes >= kAskedBytes && kMaxSums * kToldBytes <= Connection::kMaxMessageBytes);

// The number of entries, or 0 if the bytes are not such a message.
size_t CountOf(std::span<const std::byte> bytes, size_t each) {
  const size_t count = bytes.size() / each;
  return bytes.size() % each != 0 || count > kMaxSums ? 0 : count;
}

}  // namespace

void AppendSum(std::string& text, const SmallSum& sum) {
  text.append(reinterpret_cast<const char*>(sum.data()), sum.size());
}

SmallSum TakeSum(Reader& reader) {
  SmallSum sum{};
  const std::string bytes = reader.TakeBytes(sum.size());
  std::transform(bytes.begin(), bytes.end(), sum.begin(),
                 [](char byte) { return static_cast<std::byte>(byte); });
  return sum;
}

std::string Encode(std::span<const SumAsked> asked) {
  assert(asked.size() <= kMaxSums);
  std::string text;
  text.reserve(asked.size() * kAskedBytes);
  for (const SumAsked& one : asked) {
    for (const uint64_t number : {one.number, one.from, one.bytes}) Append(text, number);
  }
  return text;
}

std::string Encode(std::span<const SumTold> told) {
  assert(told.size() <= kMaxSums);
  std::string text;
  text.reserve(told.size() * kToldBytes);
  for (const SumTold& one : told) {
    Append(text, one.number);
    Append(text, uint64_t{one.sum.has_value()});
    AppendSum(text, one.sum.value_or(SmallSum()));
  }
  return text;
}

std::optional<std::vector<SumAsked>> DecodeSumAsked(std::span<const std::byte> bytes) {
  std::vector<SumAsked> asked(CountOf(bytes, kAskedBytes));
  if (asked.empty()) return std::nullopt;
  Reader reader(bytes);
  for (SumAsked& one : asked) {
    for (uint64_t* number : {&one.number, &one.from, &one.bytes}) {
      *number = reader.Take<uint64_t>();
    }
  }
  return asked;
}

std::optional<std::vector<SumTold>> DecodeSumTold(std::span<const std::byte> bytes) {
  std::vector<SumTold> told(CountOf(bytes, kToldBytes));
  if (told.empty()) return std::nullopt;
  Reader reader(bytes);
  for (SumTold& one : told) {
    one.number = reader.Take<uint64_t>();
    const auto known = reader.Take<uint64_t>();
    const SmallSum sum = TakeSum(reader);
    if (known > 1 || (known == 0 && sum != SmallSum())) return std::nullopt;
    if (known == 1) one.sum = sum;
  }
  return told;
}

}  // namespace onecopy::pipeline
