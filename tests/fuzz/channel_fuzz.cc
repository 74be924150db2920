// What the other end of a transfer, or of pushes, says on a channel.
#include <span>

#include "daemon/pipeline/message.h"
#include "daemon/pipeline/push_message.h"
#include "daemon/pipeline/sum_message.h"
#include "tests/fuzz/fuzz.h"

namespace {

enum : uint8_t { kMessage, kPushes, kPushed, kParts, kSumAsked, kSumTold, kKinds };

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// Texts one after the other, each behind its length: what is put together stays within bounds.
void Join(onecopy::fuzz::Input& input) {
  onecopy::pipeline::Joiner joiner;
  while (!input.empty()) {
    const std::string text(input.Cut(input.Get<uint16_t>()));
    std::string whole;
    if (joiner.Add(Bytes(text), &whole).value_or(false)) {
      EXPECT(whole.size() <= 128 * 1024);
      (void)onecopy::pipeline::Decode(Bytes(whole));
    }
  }
}

std::string Parts(const onecopy::pipeline::Message& message) {
  std::string all;
  for (const std::string& part : onecopy::pipeline::Split(Encode(message))) {
    all += static_cast<char>(part.size());
    all += static_cast<char>(part.size() >> 8);
    all += part;
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy::pipeline;
  onecopy::fuzz::Input input(data, size);
  switch (input.Byte() % kKinds) {
    case kMessage:
      onecopy::fuzz::RoundTrip(input.Rest(), [](const std::string& t) { return Decode(Bytes(t)); });
      break;
    case kPushes:
      onecopy::fuzz::RoundTrip(input.Rest(),
                               [](const std::string& t) { return DecodePushes(Bytes(t)); });
      break;
    case kPushed:
      onecopy::fuzz::RoundTrip(input.Rest(),
                               [](const std::string& t) { return DecodePushed(Bytes(t)); });
      break;
    case kSumAsked:
      onecopy::fuzz::RoundTrip(input.Rest(),
                               [](const std::string& t) { return DecodeSumAsked(Bytes(t)); });
      break;
    case kSumTold:
      onecopy::fuzz::RoundTrip(input.Rest(),
                               [](const std::string& t) { return DecodeSumTold(Bytes(t)); });
      break;
    default:
      Join(input);
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::pipeline;
  const onecopy::Status failure(onecopy::Code::kUnavailable, "LINK_DOWN", "gone", "wait");
  const onecopy::SmallSum sum{std::byte{1}, std::byte{0xff}};
  const std::vector<Push> pushes = {{1, 0, 4096, 64}, {2, 64, 0, 65536, 9, sum}};
  const std::vector<SumAsked> asked = {{1, 4096, 64}, {2, 0, 65536}};
  const std::vector<SumTold> told = {{1, sum}, {2, {}}, {SumTold::kRest, {}}};
  const onecopy::Step step{"east", "GPU-1", "pinned", "copy-engine", true, true};
  const Message ready = ReadyMessage{std::string(3000, 'k'), 4096, {step, step}};
  return {For(kMessage, Encode(Message(FullMessage{7, 1 << 20, 4096, "key"}))),
          For(kMessage, Encode(Message(FreeMessage{7}))),
          For(kMessage, Encode(Message(FailedMessage{failure}))),
          For(kPushes, Encode(pushes)),
          For(kPushed, Encode(Pushed{1, onecopy::OkStatus()})),
          For(kPushed, Encode(Pushed{Pushed::kRest, failure})),
          For(kSumAsked, Encode(asked)),
          For(kSumTold, Encode(told)),
          For(kMessage, Encode(ready)),
          For(kMessage, Encode(Message(WaitingMessage{WaitingMessage::For::kSlots, 12}))),
          For(kParts, Parts(ready))};
}
