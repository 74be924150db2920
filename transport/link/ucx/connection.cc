#include "transport/link/ucx/connection.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::ucx {
namespace {

constexpr std::chrono::seconds kReadyLimit{10};
// How long the end waits for the far end's, and after that for UCX to give up gets by force.
constexpr std::chrono::seconds kByeLimit{1};
constexpr std::chrono::seconds kForceLimit{5};
// UCX alone takes from seconds to for ever to notice a peer that has stopped.
constexpr std::chrono::seconds kPingInterval{3};
constexpr std::chrono::seconds kSilenceLimit{10};

uint64_t ExportOf(const RemoteKey& text) {
  const Result<KeyName> key = DecodeKey(text);
  return key.ok() ? key->exported : 0;
}

}  // namespace

UcxConnection::UcxConnection(ConnectionOptions options, Worker& worker)
    : LinkConnection(worker.loop(), "ucx", options.peer),
      options_(std::move(options)),
      worker_(worker),
      lanes_{{options_.device, options_.peer_address}},
      home_(worker.loop(), [this] { return shared_from_this(); }),
      dialogue_(worker, options_.far),
      exports_(peer(), options_.far, home_, worker, dialogue_),
      reads_({options_.node, options_.peer, options_.same_machine}, options_.near, options_.gets,
             home_, worker, dialogue_, [this] { FinishIfIdle(); }) {}

void UcxConnection::Start(EndpointRef endpoint, Ready ready) {
  dialogue_.Start(std::move(endpoint));
  ready_ = std::move(ready);
  worker_.Attach(*dialogue_.endpoint(), {options_.near, options_.far}, shared_from_this());
  if (const Status& failure = dialogue_.endpoint()->failure; !failure.ok()) {
    return Shut(failure, false);
  }
  SetLimit(kReadyLimit, &UcxConnection::NotReadyInTime);
  if (!options_.reader) return;
  dialogue_.Open();  // an owner listens from when it answers an offer
  dialogue_.Tell(MessageKind::kHello);
}

void UcxConnection::SetLimit(os::Clock::duration limit, void (UcxConnection::*passed)()) {
  home().CancelTimer(limit_timer_);
  limit_timer_ = home_.RunAfter(limit, [this, passed] { (this->*passed)(); });
}

void UcxConnection::NotReadyInTime() {
  Shut({Code::kUnavailable, reasons::kLinkDown, "the far end did not answer in time"}, false);
}

void UcxConnection::BecomeReady() {
  // Said again it means nothing: the timer is another one by then.
  if (ending() || std::exchange(was_ready_, true)) return;
  home().CancelTimer(limit_timer_);
  dialogue_.Open();
  KeepWatch();
  if (ready_) std::exchange(ready_, nullptr)(OkStatus());
}

void UcxConnection::KeepWatch() {
  watch_timer_ = home_.RunAfter(kPingInterval, [this] {
    if (ending()) return;
    const auto silence = os::Clock::now() - dialogue_.heard();
    if (silence >= kSilenceLimit) {
      return worker_.Fail(dialogue_.endpoint(), {Code::kUnavailable, reasons::kLinkDown,
                                                 "the far end stopped answering"});
    }
    if (silence >= kPingInterval) dialogue_.Tell(MessageKind::kPing);
    KeepWatch();
  });
}

void UcxConnection::Arrived(Message message) {
  const auto keep = shared_from_this();
  if (const Status put = dialogue_.Put(std::move(message)); !put.ok()) return Shut(put, true);
  while (!ended()) {
    const std::optional<Message> next = dialogue_.Next();
    if (!next) return;
    Handle(*next);
  }
}

void UcxConnection::Handle(const Message& message) {
  switch (message.kind) {
    case MessageKind::kHello:
      if (!options_.reader && !dialogue_.open()) {
        BecomeReady();
        dialogue_.Tell(MessageKind::kWelcome);
      }
      return;
    case MessageKind::kWelcome:
      if (options_.reader) BecomeReady();
      return;
    case MessageKind::kText:
      return Deliver(message.key, std::as_bytes(std::span(message.text)));
    case MessageKind::kExport:
      if (options_.reader && !ending()) reads_.OnExport(message);
      return;
    case MessageKind::kExported:
      return exports_.OnExported(message);
    case MessageKind::kRevoke:
      return reads_.OnRevoke(message.key);
    case MessageKind::kRevoked:
      return exports_.OnRevoked(message.key);
    case MessageKind::kBye:
      peer_through_ = true;
      Shut({Code::kUnavailable, reasons::kLinkDown, "the far end closed it: " + message.text},
           false);
      return FinishIfIdle();
    case MessageKind::kByeToo:
      peer_through_ = true;
      return FinishIfIdle();
    case MessageKind::kPing:
      return dialogue_.Tell(MessageKind::kPong);
    case MessageKind::kPong:
      return;
  }
}

void UcxConnection::Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    self->exports_.Add(span, std::move(done));
  });
}

// As far as UCX goes: its key is that of the whole region (see README.md, trust).
void UcxConnection::Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  Export(span, std::move(done));
}

void UcxConnection::Revoke(const RemoteKey& key, Task done) {
  InHome([self = shared_from_this(), id = ExportOf(key), done = std::move(done)]() mutable {
    self->exports_.Revoke(id, std::move(done));
  });
}

void UcxConnection::EndLoan(const RemoteKey& key, Task done) {
  InHome([self = shared_from_this(), id = ExportOf(key), done = std::move(done)]() mutable {
    self->exports_.EndLoan(id, std::move(done));
  });
}

void UcxConnection::Release(const RemoteKey& key) {
  InHome([self = shared_from_this(), id = ExportOf(key)] { self->reads_.Release(id); });
}

void UcxConnection::EndpointFailed(const Endpoint& endpoint) {
  if (&endpoint != dialogue_.endpoint().get() || ended()) return;
  peer_through_ = true;
  Shut(endpoint.failure, false);
  if (ended()) return;
  SetLimit(kForceLimit, &UcxConnection::Finish);
  FinishIfIdle();
}

void UcxConnection::Shut(const Status& reason, bool tell_peer) {
  if (!BeginEnd(reason)) return;
  home().CancelTimer(watch_timer_);
  exports_.Stop(why());
  reads_.Stop(why());
  if (tell_peer && dialogue_.open()) {
    dialogue_.Tell(MessageKind::kBye, 0, reason.message().substr(0, kMaxMessageBytes));
  } else if (!dialogue_.open()) {
    peer_through_ = true;  // it never was there
  }
  SetLimit(kByeLimit, &UcxConnection::GiveUpWaiting);
  if (ready_) std::exchange(ready_, nullptr)(why());
  FinishIfIdle();
}

// The far end has not answered in time. What is under way here or there must be ended by force.
void UcxConnection::GiveUpWaiting() {
  peer_through_ = true;
  if (!reads_.idle() || !exports_.empty()) {
    if (dialogue_.endpoint()->failure.ok()) {
      worker_.Fail(dialogue_.endpoint(),
                   {Code::kUnavailable, reasons::kLinkDown,
                    "the running reads could be ended only by closing the connection to the peer"});
    }
    return;  // EndpointFailed has set the last limit
  }
  FinishIfIdle();
}

void UcxConnection::FinishIfIdle() {
  if (ending() && peer_through_ && reads_.idle()) Finish();
}

void UcxConnection::Finish() {
  if (ended()) return;
  home().CancelTimer(limit_timer_);
  if (dialogue_.endpoint()->failure.ok() && dialogue_.open()) {
    dialogue_.Tell(MessageKind::kByeToo);
  }
  const auto keep = shared_from_this();
  worker_.Detach(options_.near);
  // UCX has been told to release these, and nothing reaches it any more (see README.md).
  reads_.EndAll();
  exports_.EndAll();
  LinkConnection::End();
}

void UcxConnection::Evidence(
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) {
  InHome([self = shared_from_this(), done = std::move(done)]() mutable {
    done({self->reads_.got_bytes().begin(), self->reads_.got_bytes().end()});
  });
}

}  // namespace onecopy::ucx
