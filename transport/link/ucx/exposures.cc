#include "transport/link/ucx/exposures.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::ucx {
namespace {

// How long a withdrawal waits for a reader that says nothing, and for one that says that it has not
// let go yet, as on a slow wire.
constexpr std::chrono::seconds kSilentLimit{2};
constexpr std::chrono::seconds kRevokeLimit{10};

}  // namespace

void Exposures::Add(const Span& span, Done done) {
  if (!stopped_.ok()) return done(stopped_);
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
  if (text.size() > kMaxText) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "UCX's key of this memory is too long to be sent"));
  }
  Exposure& exposure = exposures_[key];
  exposure.span = span;
  exposure.done = std::move(done);
  dialogue_.Tell(MessageKind::kExpose, key, std::move(text));
}

void Exposures::OnExposed(const Message& message) {
  const auto found = exposures_.find(message.key);
  if (found == exposures_.end() || !found->second.done) return;
  auto done = std::exchange(found->second.done, nullptr);
  if (message.text.empty()) return done(Encode(KeyName{far_, message.key}));
  exposures_.erase(found);
  done(Status(Code::kUnavailable, reasons::kLinkDown,
              "node " + peer_ + " cannot use UCX's key: " + message.text));
}

void Exposures::Revoke(uint64_t key, Task done) {
  const auto found = exposures_.find(key);
  if (found == exposures_.end()) {
    return home_.loop().Post(std::move(done));
  }
  found->second.revoking.push_back(std::move(done));
  if (found->second.revoking.size() > 1 || !stopped_.ok()) return;
  Limit(key, os::Clock::now() + kRevokeLimit);
  dialogue_.Tell(MessageKind::kRevoke, key);
}

void Exposures::EndLoan(uint64_t key, Task done) {
  exposures_.erase(key);
  home_.loop().Post(std::move(done));
}

void Exposures::Limit(uint64_t key, os::Clock::time_point end) {
  exposures_.at(key).timer = home_.RunAfter(kSilentLimit, [this, key, end] {
    if (!exposures_.contains(key)) return;
    const auto now = os::Clock::now();
    if (now < end && now - dialogue_.heard() < kSilentLimit) return Limit(key, end);
    worker_.Fail(dialogue_.endpoint(), {Code::kUnavailable, reasons::kLinkDown,
                                        "the reader did not let go of memory in time"});
  });
}

void Exposures::OnRevoked(uint64_t key) {
  auto node = exposures_.extract(key);
  if (node.empty()) return;
  End(node.mapped(),
      {Code::kPermissionDenied, reasons::kAccessDenied, "the right to read was withdrawn"});
}

void Exposures::End(Exposure& exposure, const Status& unless_taken) {
  home_.loop().CancelTimer(exposure.timer);
  exposure.span = {};
  if (exposure.done) exposure.done(unless_taken);
  for (Task& done : exposure.revoking) done();
}

void Exposures::EndAll() {
  for (auto& [key, exposure] : std::exchange(exposures_, {})) End(exposure, stopped_);
}

}  // namespace onecopy::ucx
