#include "client/lib/calls/call_limit.h"

#include <algorithm>
#include <utility>

namespace onecopy::client {
namespace {

using std::chrono::milliseconds;

// What a clock of nanoseconds can add to any time that it will ever show.
constexpr milliseconds kLongest = std::chrono::hours(24 * 365 * 100);
// The daemon itself waits 1.5 s for another node to say how a transfer ended.
constexpr milliseconds kForItsWord{2500};
constexpr milliseconds kTeardownLate{1000};  // where a limit holds already
constexpr milliseconds kHopeless{50};

thread_local CallLimit::Time current;

CallLimit::Clock::time_point EndOfTeardown(bool hopeless) {
  const auto now = CallLimit::Clock::now();
  if (hopeless) return now + kHopeless;
  return current ? std::clamp(*current, now + kTeardownLate, now + kTeardown) : now + kTeardown;
}

}  // namespace

CallLimit::CallLimit(Time until) : before_(current) {
  if (until && (!current || *until < *current)) current = until;
}

CallLimit::CallLimit(Clock::time_point until, Instead /*of what holds*/)
    : before_(std::exchange(current, until)) {}

CallLimit::~CallLimit() { current = before_; }

CallLimit::Time CallLimit::For(std::optional<milliseconds> deadline) {
  if (!deadline) return std::nullopt;
  return Clock::now() + std::min(*deadline, kLongest) + kForItsWord;
}

CallLimit::Time CallLimit::Current() { return current; }

std::optional<milliseconds> CallLimit::Left() {
  if (!current) return std::nullopt;
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*current - Clock::now()));
}

TeardownLimit::TeardownLimit(bool hopeless) : CallLimit(EndOfTeardown(hopeless), Instead{}) {}

}  // namespace onecopy::client
