#include "daemon/engine/transfers/tries.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// How often a lost connection is replaced where nothing has arrived.
constexpr int kMost = 4;
constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::milliseconds kLongestPause{2000};

}  // namespace

bool Tries::Arrived(uint64_t bytes, uint64_t payload) {
  if (payload == 0) return false;
  // What has come as a whole, and was lost at the very end, is asked for its last piece again.
  const uint64_t whole = std::min(bytes, payload - 1) / kGrain * kGrain;
  if (whole <= arrived_) return false;
  arrived_ = whole;
  made_ = 0;
  lost_ = OkStatus();
  return true;
}

void Tries::ArrivedAll() {
  made_ = 0;
  lost_ = OkStatus();
}

void Tries::Lose(const Status& why) {
  if (lost_.ok()) {
    lost_ = why;
    lost_at_ = os::Clock::now();
  }
  ++made_;
}

void Tries::LoseNode() { made_ = std::max(made_, 2); }

os::Clock::duration Tries::LostFor(os::Clock::time_point progressed) const {
  return os::Clock::now() - (lost_.ok() ? progressed : lost_at_);
}

bool Tries::MayWait(bool something, os::Clock::time_point progressed) const {
  return LostFor(progressed) < (something ? something_ : nothing_);
}

bool Tries::MayTryAgain(os::Clock::time_point progressed) const {
  return made_ < kMost && LostFor(progressed) < nothing_;
}

bool Tries::many() const { return made_ > kMost; }

std::chrono::milliseconds Tries::Pause() const {
  if (made_ == 1) return std::chrono::milliseconds(0);
  return std::min(kPause * (1 << std::clamp(made_ - 2, 0, 8)), kLongestPause);
}

}  // namespace onecopy::engine
