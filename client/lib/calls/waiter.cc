#include "client/lib/calls/waiter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::client {

namespace {

// What a clock of nanoseconds can add to any time that it will ever show.
constexpr auto kLongestWait =
    std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::hours(24 * 365 * 100));

}  // namespace

void Waiter::Wake::operator()() const {
  const uint64_t one = 1;
  // Cannot fail: the counter is far from full, and the descriptor outlives the callback.
  static_cast<void>(!::write(fd, &one, sizeof one));
}

Result<std::unique_ptr<Waiter>> Waiter::Make(std::stop_token stop,
                                             std::optional<std::chrono::milliseconds> limit) {
  os::UniqueFd wake(::eventfd(0, EFD_CLOEXEC));
  if (!wake) return os::ErrnoStatus(errno, "making an eventfd");
  return std::unique_ptr<Waiter>(new Waiter(std::move(stop), limit, std::move(wake)));
}

Waiter::Waiter(std::stop_token stop, std::optional<std::chrono::milliseconds> limit,
               os::UniqueFd wake)
    : stop_(std::move(stop)),
      limit_(limit),
      deadline_(limit.has_value() ? std::optional(Clock::now() + std::min(*limit, kLongestWait))
                                  : std::nullopt),
      wake_(std::move(wake)),
      on_stop_(stop_, Wake{wake_.get()}) {}

std::optional<std::chrono::milliseconds> Waiter::Remaining() const {
  if (!deadline_.has_value()) return std::nullopt;
  return std::max(std::chrono::milliseconds(0),
                  std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()));
}

Status Waiter::Check() const {
  if (stop_.stop_requested()) {
    return {Code::kCancelled, reasons::kCancelled, "cancelled"};
  }
  if (deadline_.has_value() && Clock::now() >= *deadline_) {
    return {Code::kDeadlineExceeded, reasons::kDeadline,
            "not done within " + std::to_string(limit_->count()) + " ms",
            "allow more time with a later deadline"};
  }
  return OkStatus();
}

Status Waiter::Wait(int fd, short events) const {
  std::array<pollfd, 2> polled = {{{fd, events, 0}, {wake_.get(), POLLIN, 0}}};
  for (;;) {
    ONECOPY_RETURN_IF_ERROR(Check());
    int timeout = -1;
    if (const auto remaining = Remaining(); remaining.has_value()) {
      timeout =
          static_cast<int>(std::min<int64_t>(remaining->count(), std::numeric_limits<int>::max()));
    }
    if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) {
      return os::ErrnoStatus(errno, "waiting for a file");
    }
    if (polled[0].revents != 0) return OkStatus();
  }
}

}  // namespace onecopy::client
