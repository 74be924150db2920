// What a connection's owning end does: hands out keys, takes them back.
#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/ucx/connection.h"
#include "transport/link/ucx/connection_state.h"
#include "transport/os/machine.h"

namespace onecopy::ucx {
namespace {

// How long a withdrawal waits for a reader that says nothing, and for one that says that it has not
// let go yet, as on a slow wire.
constexpr std::chrono::seconds kSilentLimit{2};
constexpr std::chrono::seconds kWithdrawLimit{10};

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

// As far as UCX goes: its key is that of the whole region (see README.md, trust).
void UcxConnection::Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  Expose(span, std::move(done));
}

void UcxConnection::EndLoan(const RemoteKey& text, Task done) {
  const Result<KeyName> key = DecodeKey(text);
  InHome([self = shared_from_this(), id = key.ok() ? key->exposure : 0,
          done = std::move(done)]() mutable {
    self->exposures_.erase(id);
    self->loop_.Post([done = std::move(done)]() mutable { done(); });
  });
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

void UcxConnection::Withdraw(const RemoteKey& text, Task done) {
  const Result<KeyName> key = DecodeKey(text);
  InHome([self = shared_from_this(), key = key.ok() ? key->exposure : 0,
          done = std::move(done)]() mutable { self->StartWithdraw(key, std::move(done)); });
}

void UcxConnection::StartWithdraw(uint64_t key, Task done) {
  const auto found = exposures_.find(key);
  if (found == exposures_.end()) {
    return loop_.Post([done = std::move(done)]() mutable { done(); });
  }
  found->second.withdrawing.push_back(std::move(done));
  if (found->second.withdrawing.size() > 1 || shut_) return;
  LimitWithdraw(key, os::Clock::now() + kWithdrawLimit);
  Tell(MessageKind::kWithdraw, key);
}

void UcxConnection::LimitWithdraw(uint64_t key, os::Clock::time_point end) {
  exposures_.at(key).timer = loop_.RunAfter(kSilentLimit, [self = shared_from_this(), key, end] {
    if (self->exposures_.count(key) == 0) return;
    const auto now = os::Clock::now();
    if (now < end && now - self->heard_ < kSilentLimit) return self->LimitWithdraw(key, end);
    self->worker_.Fail(self->endpoint_, {Code::kUnavailable, reasons::kLinkDown,
                                         "bytes that were withdrawn are not let go"});
    self->Shut(self->endpoint_->failure, false);
  });
}

void UcxConnection::TakeWithdrawn(uint64_t key) {
  auto node = exposures_.extract(key);
  if (node.empty()) return;
  Exposure& exposure = node.mapped();
  loop_.CancelTimer(exposure.timer);
  exposure.span = {};
  if (exposure.done) exposure.done(NotOpen());
  for (Task& done : exposure.withdrawing) done();
}

}  // namespace onecopy::ucx
