#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "client/lib/calls/fork_guard.h"
#include "onecopy/async.h"
#include "transport/core/base/mutex.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy {

struct CompletionQueue::State {
  const uint64_t made_in = client::ForkGuard::Generation();
  os::UniqueFd event;  // an eventfd, whose counter is 1 while there is something
  Mutex mutex;
  std::deque<Ended> ended ONECOPY_GUARDED_BY(mutex);

  void Add(uint64_t tag, const Result<TransferInfo>& outcome) {
    const MutexLock lock(mutex);
    ended.push_back({tag, outcome});
    if (ended.size() > 1) return;
    const uint64_t one = 1;
    // Cannot fail: the counter is 0.
    static_cast<void>(!::write(event.get(), &one, sizeof one));
  }
};

Result<CompletionQueue> CompletionQueue::Make() {
  auto state = std::make_shared<State>();
  state->event = os::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->event) return os::ErrnoStatus(errno, "making an eventfd");
  return CompletionQueue(std::move(state));
}

int CompletionQueue::fd() const { return state_->event.get(); }

std::optional<CompletionQueue::Ended> CompletionQueue::Take() {
  // In a child the lock may be held for ever, and the eventfd's counter is the parent's, too.
  if (!client::ForkGuard::CheckObject(state_->made_in).ok()) return std::nullopt;
  const MutexLock lock(state_->mutex);
  if (state_->ended.empty()) return std::nullopt;
  Ended first = std::move(state_->ended.front());
  state_->ended.pop_front();
  if (state_->ended.empty()) {
    uint64_t count = 0;
    static_cast<void>(!::read(state_->event.get(), &count, sizeof count));
  }
  return first;
}

std::function<void(const Result<TransferInfo>&)> CompletionQueue::Notify(uint64_t tag) const {
  return [queue = std::weak_ptr(state_), tag](const Result<TransferInfo>& outcome) {
    if (const auto state = queue.lock()) state->Add(tag, outcome);
  };
}

}  // namespace onecopy
