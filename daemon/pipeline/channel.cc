#include "daemon/pipeline/channel.h"

#include <utility>
#include <vector>

#include "transport/core/reasons.h"

namespace onecopy::pipeline {
namespace {

constexpr size_t kMostWaiting = 65536;  // more than any ring has slots: the peer is broken

}  // namespace

// Shared with the connection's handler, which may outlive the channel by a message.
struct Channel::Inbox {
  Handler handler;
  std::vector<Message> waiting;
};

Channel::Channel(std::shared_ptr<Connection> connection, ChannelId id)
    : connection_(std::move(connection)), id_(id), inbox_(std::make_shared<Inbox>()) {
  connection_->Listen(id_, [inbox = inbox_](std::span<const std::byte> bytes) {
    std::optional<Message> message = Decode(bytes);
    if (!message || inbox->waiting.size() >= kMostWaiting) {
      message = FailedMessage{Status(Code::kUnavailable, reasons::kLinkDown,
                                     "the peer sent a message that makes no sense")};
    }
    if (inbox->handler) return inbox->handler(*message);
    inbox->waiting.push_back(std::move(*message));
  });
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
  const std::string text = Encode(message);
  return connection_->Send(id_, {reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

}  // namespace onecopy::pipeline
