// What a connection's owning end does: hands out keys, takes them back.
#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/ucx/connection.h"
#include "transport/link/ucx/connection_state.h"
#include "transport/os/machine.h"

namespace onecopy::ucx {
namespace {

// How long a withdrawal waits for the reader to let go.
constexpr std::chrono::seconds kWithdrawLimit{2};

}  // namespace

void UcxConnection::Expose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    self->StartExpose(span, std::move(done));
  });
}

void UcxConnection::StartExpose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  if (shut_) return done(why_);
  const auto mapped = worker_.context().Find(*span.region);
  if (mapped == nullptr) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "memory of " + span.region->step_name() + " is not registered with ucx"));
  }
  uint64_t key = 0;
  while (key == 0 || exposures_.count(key) > 0) key = os::RandomNumber();
  Exposing exposing;
  exposing.address = reinterpret_cast<uintptr_t>(span.address());
  exposing.bytes = span.bytes;
  exposing.memory = span.region->step_name();
  exposing.rkey = mapped->rkey;
  std::string text = Encode(exposing);
  if (text.size() > kMostText) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "UCX's key of this memory is too long to be sent"));
  }
  Exposure& exposure = exposures_[key];
  exposure.span = span;
  exposure.done = std::move(done);
  Tell(MessageKind::kExpose, key, std::move(text));
}

void UcxConnection::TakeExposed(const Message& message) {
  const auto found = exposures_.find(message.key);
  if (found == exposures_.end() || !found->second.done) return;
  auto done = std::exchange(found->second.done, nullptr);
  if (message.text.empty()) return done(Encode(KeyName{options_.far, message.key}));
  exposures_.erase(found);
  done(Status(Code::kUnavailable, reasons::kLinkDown,
              "node " + options_.peer + " cannot use UCX's key: " + message.text));
}

void UcxConnection::Withdraw(const RemoteKey& text, WithdrawDone done) {
  const Result<KeyName> key = DecodeKey(text);
  InHome([self = shared_from_this(), key = key.ok() ? key->exposure : 0,
          done = std::move(done)]() mutable { self->StartWithdraw(key, std::move(done)); });
}

void UcxConnection::StartWithdraw(uint64_t key, WithdrawDone done) {
  const auto found = exposures_.find(key);
  if (found == exposures_.end()) {
    return loop_.Post([done = std::move(done)]() mutable { done({}); });
  }
  found->second.withdrawing.push_back(std::move(done));
  if (found->second.withdrawing.size() > 1 || shut_) return;
  found->second.timer = loop_.RunAfter(kWithdrawLimit, [self = shared_from_this(), key] {
    if (self->exposures_.count(key) == 0) return;
    self->worker_.Fail(self->endpoint_, {Code::kUnavailable, reasons::kStalled,
                                         "bytes that were withdrawn are not let go"});
    self->Shut(self->endpoint_->failure, false);
  });
  Tell(MessageKind::kWithdraw, key);
}

void UcxConnection::TakeWithdrawn(uint64_t key) {
  auto node = exposures_.extract(key);
  if (node.empty()) return;
  Exposure& exposure = node.mapped();
  loop_.CancelTimer(exposure.timer);
  exposure.span = {};
  if (exposure.done) exposure.done(NotOpen());
  for (WithdrawDone& done : exposure.withdrawing) done({});
}

}  // namespace onecopy::ucx
