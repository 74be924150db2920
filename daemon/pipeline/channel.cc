#include "daemon/pipeline/channel.h"

#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::pipeline {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

FailedMessage Broken(const char* what) {
  return {Status(Code::kUnavailable, reasons::kLinkDown, what)};
}

}  // namespace

// Shared with the connection's handler, which may outlive the channel by a message.
struct Channel::Inbox {
  Handler control;
  Handler handler;
  Joiner joiner;
  std::vector<Message> waiting;
  size_t waiting_bytes = 0;
  size_t most_waiting_bytes = 0;

  bool TooMany() const { return waiting_bytes > most_waiting_bytes; }
  void Hear(std::span<const std::byte> bytes) {
    if (TooMany()) return;  // it was told
    std::string text;
    const std::optional<bool> whole = joiner.Add(bytes, &text);
    if (whole && !*whole) return;
    std::optional<Message> message;
    if (whole) message = Decode(BytesOf(text));
    if (!message) message = Broken("the peer sent a malformed message");
    const bool chunks = std::holds_alternative<FullMessage>(*message) ||
                        std::holds_alternative<FreeMessage>(*message);
    const bool failed = std::holds_alternative<FailedMessage>(*message);
    if (!chunks && control) control(*message);
    if (!chunks && !failed) return;
    if (handler) return handler(*message);
    waiting_bytes += sizeof(Message) + text.size();
    if (TooMany()) {
      message = Broken("the peer sent more messages than this transfer has use for");
      if (control) control(*message);
    }
    waiting.push_back(std::move(*message));
  }
};

Channel::Channel(std::shared_ptr<Connection> connection, ChannelId id, Handler control,
                 size_t most_waiting_bytes)
    : connection_(std::move(connection)), id_(id), inbox_(std::make_shared<Inbox>()) {
  inbox_->control = std::move(control);
  inbox_->most_waiting_bytes = most_waiting_bytes;
  connection_->Listen(id_,
                      [inbox = inbox_](std::span<const std::byte> bytes) { inbox->Hear(bytes); });
}

Channel::~Channel() { connection_->Ignore(id_); }

void Channel::SetHandler(Handler handler) {
  inbox_->handler = std::move(handler);
  if (!inbox_->handler) return;
  if (!inbox_->TooMany()) inbox_->waiting_bytes = 0;
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
