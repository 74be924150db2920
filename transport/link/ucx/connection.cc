// How a connection begins, speaks and ends.
#include "transport/link/ucx/connection.h"

#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/ucx/connection_state.h"

namespace onecopy::ucx {
namespace {

constexpr std::chrono::seconds kReadyLimit{10};
// How long the end waits for the far end's, and after that for UCX to give up gets by force.
constexpr std::chrono::seconds kByeLimit{1};
constexpr std::chrono::seconds kForceLimit{5};
// UCX alone takes from seconds to for ever to notice a peer that has stopped.
constexpr std::chrono::seconds kPingInterval{3};
constexpr std::chrono::seconds kSilenceLimit{10};
constexpr size_t kMostEarly = 1024;

}  // namespace

UcxConnection::UcxConnection(ConnectionOptions options, Worker& worker)
    : options_(std::move(options)),
      worker_(worker),
      loop_(worker.loop()),
      lanes_{{options_.device, options_.peer_address}} {}

UcxConnection::~UcxConnection() = default;

void UcxConnection::InHome(Task task) {
  if (loop_.InThread()) return task();
  loop_.Post(std::move(task));
}

void UcxConnection::Start(EndpointRef endpoint, Ready ready) {
  endpoint_ = std::move(endpoint);
  ready_callback_ = std::move(ready);
  heard_ = os::Clock::now();
  worker_.Attach(options_.near, shared_from_this());
  if (!endpoint_->failure.ok()) return Shut(endpoint_->failure, false);
  limit_timer_ = loop_.RunAfter(kReadyLimit, [self = shared_from_this()] {
    self->limit_timer_ = 0;
    self->Shut({Code::kUnavailable, reasons::kLinkDown, "the far end did not answer in time"},
               false);
  });
  if (!options_.reader) return;
  ready_ = true;  // an owner listens from when it answers an offer
  Tell(MessageKind::kHello);
}

void UcxConnection::BecomeReady() {
  loop_.CancelTimer(std::exchange(limit_timer_, 0));
  ready_ = true;
  for (Message& message : std::exchange(unsent_, {})) {
    Tell(message.kind, message.key, std::move(message.text));
  }
  KeepWatch();
  if (ready_callback_) std::exchange(ready_callback_, nullptr)(OkStatus());
}

void UcxConnection::KeepWatch() {
  watch_timer_ = loop_.RunAfter(kPingInterval, [self = shared_from_this()] {
    self->watch_timer_ = 0;
    if (self->shut_) return;
    const auto silence = os::Clock::now() - self->heard_;
    if (silence >= kSilenceLimit) {
      return self->worker_.Fail(
          self->endpoint_, {Code::kUnavailable, reasons::kLinkDown, "the far end has gone silent"});
    }
    if (silence >= kPingInterval) self->Tell(MessageKind::kPing);
    self->KeepWatch();
  });
}

void UcxConnection::Listen(ChannelId channel, MessageHandler handler) {
  listeners_.Listen(channel, std::move(handler));
}

void UcxConnection::Ignore(ChannelId channel) { listeners_.Ignore(channel); }

Status UcxConnection::Send(ChannelId channel, std::span<const std::byte> message) {
  if (message.size() > kMaxMessageBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a ucx message above its bound"};
  }
  if (closed_) return {Code::kUnavailable, reasons::kLinkDown, "the ucx connection is closed"};
  InHome([self = shared_from_this(), channel,
          text = std::string(reinterpret_cast<const char*>(message.data()),
                             message.size())]() mutable {
    if (!self->shut_) self->Tell(MessageKind::kText, channel, std::move(text));
  });
  return OkStatus();
}

void UcxConnection::Tell(MessageKind kind, uint64_t key, std::string text) {
  Message message{kind, options_.far, 0, key, std::move(text)};
  if (!ready_) {
    unsent_.push_back(std::move(message));
    return;
  }
  message.sequence = next_sent_++;
  worker_.Send(endpoint_, message);
}

// UCX does not promise that its active messages arrive in order.
void UcxConnection::Arrived(Message message) {
  heard_ = os::Clock::now();
  const auto keep = shared_from_this();
  const uint64_t sequence = message.sequence;
  if (sequence < next_arriving_) return;
  if (sequence > next_arriving_ && early_.size() >= kMostEarly) {
    return Shut({Code::kUnavailable, reasons::kLinkDown, "messages are missing"}, true);
  }
  early_.emplace(sequence, std::move(message));
  while (!early_.empty() && early_.begin()->first == next_arriving_ && !done_) {
    const auto node = early_.extract(early_.begin());
    ++next_arriving_;
    Handle(node.mapped());
  }
}

void UcxConnection::Handle(const Message& message) {
  switch (message.kind) {
    case MessageKind::kHello:
      if (!options_.reader && !ready_) {
        BecomeReady();
        Tell(MessageKind::kWelcome);
      }
      return;
    case MessageKind::kWelcome:
      if (options_.reader) BecomeReady();
      return;
    case MessageKind::kText:
      return listeners_.Deliver(message.key, std::as_bytes(std::span(message.text)));
    case MessageKind::kExpose:
      if (!shut_) TakeExposing(message);
      return;
    case MessageKind::kExposed:
      return TakeExposed(message);
    case MessageKind::kWithdraw:
      return TakeWithdraw(message.key);
    case MessageKind::kWithdrawn:
      return TakeWithdrawn(message.key);
    case MessageKind::kBye:
      peer_through_ = true;
      Shut({Code::kUnavailable, reasons::kLinkDown, "the far end closed it: " + message.text},
           false);
      return FinishIfIdle();
    case MessageKind::kByeToo:
      peer_through_ = true;
      return FinishIfIdle();
    case MessageKind::kPing:
      return Tell(MessageKind::kPong);
    case MessageKind::kPong:
      return;
  }
}

void UcxConnection::OnClosed(UniqueFunction<void(Status)> closed) {
  InHome([self = shared_from_this(), closed = std::move(closed)]() mutable {
    if (self->done_) return closed(self->why_);
    self->closed_callbacks_.push_back(std::move(closed));
  });
}

void UcxConnection::Close(Status why) {
  closed_ = true;
  loop_.Post([self = shared_from_this(), why = std::move(why)] { self->Shut(why, true); });
}

void UcxConnection::EndpointFailed(const Endpoint& endpoint) {
  if (&endpoint != endpoint_.get() || done_) return;
  peer_through_ = true;
  Shut(endpoint.failure, false);
  if (!shut_ || done_) return;
  loop_.CancelTimer(std::exchange(limit_timer_, 0));
  limit_timer_ = loop_.RunAfter(kForceLimit, [self = shared_from_this()] {
    self->limit_timer_ = 0;
    self->Finish();
  });
  FinishIfIdle();
}

void UcxConnection::Shut(Status why, bool tell) {
  if (shut_) return;
  shut_ = true;
  closed_ = true;
  why_ = why.WithContext("connection with node " + options_.peer);
  loop_.CancelTimer(std::exchange(watch_timer_, 0));
  loop_.CancelTimer(std::exchange(limit_timer_, 0));
  CompleteQueued([](const Operation&) { return true; }, why_);
  if (tell && ready_) {
    Tell(MessageKind::kBye, 0, why.message().substr(0, kMaxMessageBytes));
  } else if (!ready_) {
    peer_through_ = true;  // it never was there
  }
  limit_timer_ = loop_.RunAfter(kByeLimit, [self = shared_from_this()] { self->GiveUpWaiting(); });
  if (ready_callback_) std::exchange(ready_callback_, nullptr)(why_);
  FinishIfIdle();
}

// The far end has not answered in time. What is under way here or there must be ended by force.
void UcxConnection::GiveUpWaiting() {
  limit_timer_ = 0;
  peer_through_ = true;
  if (!posted_.empty() || !exposures_.empty()) {
    if (endpoint_->failure.ok()) worker_.Fail(endpoint_, why_);
    return;  // EndpointFailed has set the last limit
  }
  FinishIfIdle();
}

void UcxConnection::FinishIfIdle() {
  if (shut_ && !done_ && peer_through_ && posted_.empty()) Finish();
}

void UcxConnection::Finish() {
  if (done_) return;
  done_ = true;
  loop_.CancelTimer(std::exchange(limit_timer_, 0));
  if (endpoint_->failure.ok() && ready_) Tell(MessageKind::kByeToo);
  worker_.Detach(options_.near);
  // UCX has been told to let go of these, and nothing reaches it any more (see README.md).
  for (const auto& operation : std::exchange(posted_, {})) {
    operation->readable.reset();
    operation->done(why_, nullptr, 0);
  }
  readables_.clear();
  for (auto& [key, exposure] : std::exchange(exposures_, {})) {
    loop_.CancelTimer(exposure.timer);
    exposure.span = {};
    if (exposure.done) exposure.done(why_);
    for (Task& done : exposure.withdrawing) done();
  }
  listeners_.Clear();
  // After what the end of the exposures has posted.
  loop_.Post([self = shared_from_this()] {
    for (auto& closed : std::exchange(self->closed_callbacks_, {})) closed(self->why_);
  });
}

void UcxConnection::Evidence(
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) {
  InHome([self = shared_from_this(), done = std::move(done)]() mutable {
    done({self->got_bytes_.begin(), self->got_bytes_.end()});
  });
}

}  // namespace onecopy::ucx
