#include "client/lib/transfers/pending_transfer.h"

#include <climits>
#include <exception>
#include <string>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/threads/futex.h"

namespace onecopy::client {
namespace {

constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(24 * 365);

thread_local const void* runs_callbacks_of = nullptr;

}  // namespace

PendingTransfer::PendingTransfer(TransferCallbacks callbacks, std::function<void()> canceller)
    : canceller_(std::move(canceller)), callbacks_(std::move(callbacks)) {}

void PendingTransfer::RunsCallbacks(const void* loop) { runs_callbacks_of = loop; }

bool PendingTransfer::IsCallbackOf(const void* loop) {
  return loop != nullptr && runs_callbacks_of == loop;
}

bool PendingTransfer::InCallback() const { return IsCallbackOf(loop_); }

bool PendingTransfer::done() {
  using std::chrono::nanoseconds;
  if (!has_ended() && CheckProcess().ok()) static_cast<void>(Drive(nanoseconds(0), nanoseconds(0)));
  return has_ended();
}

bool PendingTransfer::Drive(std::chrono::nanoseconds /*waited*/,
                            std::chrono::nanoseconds /*longest*/) {
  return false;
}

bool PendingTransfer::WaitFor(std::chrono::nanoseconds limit) {
  if (done() || InCallback() || !CheckProcess().ok()) return done();
  const auto now = std::chrono::steady_clock::now();
  const auto deadline = now + std::min(limit, kForEver);
  waiters_.fetch_add(1);
  while (!has_ended()) {
    const auto looked = std::chrono::steady_clock::now();
    const auto left = deadline - looked;
    if (left <= left.zero()) break;
    if (!Drive(looked - now, left)) os::FutexWait(done_, 0, left);
  }
  waiters_.fetch_sub(1);
  return done();
}

Result<TransferInfo> PendingTransfer::Get() {
  while (!done()) {
    ONECOPY_RETURN_IF_ERROR(CheckProcess());
    if (InCallback()) {
      return Status(Code::kFailedPrecondition, reasons::kCalledFromCallback,
                    "a callback waits for another transfer of its client, which only the "
                    "callback's own thread could finish",
                    "wait on another thread, or use that transfer's on_end");
    }
    static_cast<void>(WaitFor(kForEver));
  }
  return *outcome_;
}

std::optional<TransferInfo> PendingTransfer::Latest() {
  if (done()) return outcome_->ok() ? std::optional(**outcome_) : std::nullopt;
  if (!CheckProcess().ok()) return std::nullopt;
  const MutexLock lock(mutex_);
  return latest_;
}

void PendingTransfer::Cancel() {
  if (!has_ended() && CheckProcess().ok()) canceller_();
}

Status PendingTransfer::callback_status() const {
  ONECOPY_RETURN_IF_ERROR(CheckProcess());
  const MutexLock lock(mutex_);
  return callback_status_;
}

template <typename Argument>
void PendingTransfer::CallBack(const std::function<void(const Argument&)>& callback,
                               const Argument& argument) {
  if (!callback) return;
  std::string what;
  try {
    return callback(argument);
  } catch (const std::exception& thrown) {
    what = thrown.what();
  } catch (...) {
    what = "something other than a std::exception";
  }
  const MutexLock lock(mutex_);
  if (!callback_status_.ok()) return;
  callback_status_ = {Code::kInternal, reasons::kInternal, "a callback threw: " + what,
                      "catch it in the callback"};
}

void PendingTransfer::Update(const TransferInfo& transfer) {
  {
    const MutexLock lock(mutex_);
    latest_ = transfer;
  }
  CallBack(callbacks_.on_update, transfer);
}

void PendingTransfer::End(Result<TransferInfo> outcome) {
  outcome_.emplace(std::move(outcome));
  done_.store(1);
  if (waiters_.load() != 0) os::FutexWake(done_, INT_MAX);
  CallBack(callbacks_.on_end, *outcome_);
  callbacks_ = {};
}

}  // namespace onecopy::client

namespace onecopy {

TransferFuture::TransferFuture(std::shared_ptr<client::PendingTransfer> state)
    : state_(std::move(state)) {}

bool TransferFuture::done() const { return state_->done(); }
bool TransferFuture::WaitFor(std::chrono::nanoseconds limit) const {
  return state_->WaitFor(limit);
}
Result<TransferInfo> TransferFuture::Get() const { return state_->Get(); }
std::optional<TransferInfo> TransferFuture::Latest() const { return state_->Latest(); }
void TransferFuture::Cancel() const { state_->Cancel(); }
Status TransferFuture::callback_status() const { return state_->callback_status(); }

}  // namespace onecopy
