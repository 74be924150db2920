#include "transport/link/ucx/exports.h"

#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::ucx {
namespace {

// How long a withdrawal waits for a reader that says nothing, and for one that says that it has not
// released yet, as on a slow wire.
constexpr std::chrono::seconds kSilentLimit{2};
constexpr std::chrono::seconds kRevokeLimit{10};

}  // namespace

void Exports::Add(const Span& span, Done done) {
  if (!stopped_.ok()) return done(stopped_);
  const auto mapped = worker_.context().Find(*span.region);
  if (mapped == nullptr) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "memory of " + span.region->step_name() + " is not registered with ucx"));
  }
  uint64_t key = 0;
  while (key == 0 || exports_.count(key) > 0) key = os::RandomNumber();
  ExportInfo info;
  info.address = reinterpret_cast<uintptr_t>(span.address());
  info.bytes = span.bytes;
  info.memory = span.region->step_name();
  info.rkey = mapped->rkey;
  std::string text = Encode(info);
  if (text.size() > kMaxText) {
    return done(Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "UCX's key of this memory is too long to send"));
  }
  Export& exported = exports_[key];
  exported.span = span;
  exported.done = std::move(done);
  dialogue_.Tell(MessageKind::kExport, key, std::move(text));
}

void Exports::OnExported(const Message& message) {
  const auto found = exports_.find(message.key);
  if (found == exports_.end() || !found->second.done) return;
  auto done = std::exchange(found->second.done, nullptr);
  if (message.text.empty()) return done(Encode(KeyName{far_, message.key}));
  exports_.erase(found);
  done(Status(Code::kUnavailable, reasons::kLinkDown,
              "node " + peer_ + " cannot use UCX's key: " + message.text));
}

void Exports::Revoke(uint64_t key, Task done) {
  const auto found = exports_.find(key);
  if (found == exports_.end()) {
    return home_.loop().Post(std::move(done));
  }
  found->second.revoking.push_back(std::move(done));
  if (found->second.revoking.size() > 1 || !stopped_.ok()) return;
  Limit(key, os::Clock::now() + kRevokeLimit);
  dialogue_.Tell(MessageKind::kRevoke, key);
}

void Exports::EndLoan(uint64_t key, Task done) {
  exports_.erase(key);
  home_.loop().Post(std::move(done));
}

void Exports::Limit(uint64_t key, os::Clock::time_point end) {
  exports_.at(key).timer = home_.RunAfter(kSilentLimit, [this, key, end] {
    if (!exports_.contains(key)) return;
    const auto now = os::Clock::now();
    if (now < end && now - dialogue_.heard() < kSilentLimit) return Limit(key, end);
    worker_.Fail(dialogue_.endpoint(),
                 {Code::kUnavailable, reasons::kLinkDown,
                  "the peer did not release memory in time after its access was revoked"});
  });
}

void Exports::OnRevoked(uint64_t key) {
  auto node = exports_.extract(key);
  if (node.empty()) return;
  End(node.mapped(),
      {Code::kPermissionDenied, reasons::kAccessDenied, "the right to read was withdrawn"});
}

void Exports::End(Export& exported, const Status& unless_taken) {
  home_.loop().CancelTimer(exported.timer);
  exported.span = {};
  if (exported.done) exported.done(unless_taken);
  for (Task& done : exported.revoking) done();
}

void Exports::EndAll() {
  for (auto& [key, exported] : std::exchange(exports_, {})) End(exported, stopped_);
}

}  // namespace onecopy::ucx
