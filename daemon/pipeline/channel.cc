#include "daemon/pipeline/channel.h"

#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::pipeline {
namespace {

constexpr size_t kMaxWaiting = 65536;  // more than any ring has slots: the peer is broken

std::span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

// Shared with the connection's handler, which may outlive the channel by a message.
struct Channel::Inbox {
  Handler control;
  Handler handler;
  Joiner joiner;
  std::vector<Message> waiting;

  void Hear(std::span<const std::byte> bytes) {
    std::string text;
    const std::optional<bool> whole = joiner.Add(bytes, &text);
    if (whole && !*whole) return;
    std::optional<Message> message;
    if (whole && waiting.size() < kMaxWaiting) message = Decode(BytesOf(text));
    if (!message) {
      message = FailedMessage{
          Status(Code::kUnavailable, reasons::kLinkDown, "the peer sent a malformed message")};
    }
    const bool chunks = std::holds_alternative<FullMessage>(*message) ||
                        std::holds_alternative<FreeMessage>(*message);
    const bool failed = std::holds_alternative<FailedMessage>(*message);
    if (!chunks && control) control(*message);
    if (!chunks && !failed) return;
    if (handler) return handler(*message);
    if (waiting.size() < kMaxWaiting) waiting.push_back(std::move(*message));
  }
};

Channel::Channel(std::shared_ptr<Connection> connection, ChannelId id, Handler control)
    : connection_(std::move(connection)), id_(id), inbox_(std::make_shared<Inbox>()) {
  inbox_->control = std::move(control);
  connection_->Listen(id_,
                      [inbox = inbox_](std::span<const std::byte> bytes) { inbox->Hear(bytes); });
}

Channel::~Channel() { connection_->Ignore(id_); }

void Channel::SetHandler(Handler handler) {
  inbox_->handler = std::move(handler);
  if (!inbox_->handler) return;
  for (const Message& message : std::exchange(inbox_->waiting, {})) {
    if (inbox_->handler) inbox_->handler(message);
  }
}

Status Channel::Send(const Message& message) {
  for (const std::string& text : Split(Encode(message))) {
    if (Status sent = connection_->Send(id_, BytesOf(text)); !sent.ok()) return sent;
  }
  return OkStatus();
}

}  // namespace onecopy::pipeline
