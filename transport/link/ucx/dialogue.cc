#include "transport/link/ucx/dialogue.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::ucx {
namespace {

constexpr size_t kMaxEarly = 1024;

}  // namespace

void Dialogue::Start(EndpointRef endpoint) {
  endpoint_ = std::move(endpoint);
  heard_ = os::Clock::now();
}

void Dialogue::Open() {
  open_ = true;
  for (Message& message : std::exchange(unsent_, {})) {
    Tell(message.kind, message.key, std::move(message.text));
  }
}

void Dialogue::Tell(MessageKind kind, uint64_t key, std::string text) {
  Message message{kind, far_, 0, key, std::move(text)};
  if (!open_) {
    unsent_.push_back(std::move(message));
    return;
  }
  message.sequence = next_sent_++;
  worker_.Send(endpoint_, message);
}

Status Dialogue::Put(Message message) {
  heard_ = os::Clock::now();
  const uint64_t sequence = message.sequence;
  if (sequence < next_arriving_) return OkStatus();
  if (sequence > next_arriving_ && early_.size() >= kMaxEarly) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "a message from the peer was lost: too many later messages have arrived"};
  }
  early_.emplace(sequence, std::move(message));
  return OkStatus();
}

std::optional<Message> Dialogue::Next() {
  if (early_.empty() || early_.begin()->first != next_arriving_) return std::nullopt;
  ++next_arriving_;
  return std::move(early_.extract(early_.begin()).mapped());
}

}  // namespace onecopy::ucx
