#include "daemon/metrics/engine_figures.h"

#include <cstdint>
#include <utility>

#include "transport/core/mutex.h"

namespace onecopy::metrics {

struct EngineFigures::State {
  Mutex mutex;
  Condition answered;
  bool asked ONECOPY_GUARDED_BY(mutex) = false;
  uint64_t answers ONECOPY_GUARDED_BY(mutex) = 0;
  std::shared_ptr<const engine::Figures> last ONECOPY_GUARDED_BY(mutex);
};

EngineFigures::EngineFigures(Ask ask) : ask_(std::move(ask)), state_(std::make_shared<State>()) {}

std::shared_ptr<const engine::Figures> EngineFigures::Get(
    std::chrono::milliseconds patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  State& state = *state_;
  MutexLock lock(state.mutex);
  const uint64_t before = state.answers;
  if (!std::exchange(state.asked, true)) {
    lock.Unlock();
    ask_([kept = state_](engine::Figures figures) {
      auto answer = std::make_shared<const engine::Figures>(std::move(figures));
      const MutexLock held(kept->mutex);
      kept->last = std::move(answer);
      ++kept->answers;
      kept->asked = false;
      kept->answered.NotifyAll();
    });
    lock.Lock();
  }
  while (state.answers == before) {
    if (!state.answered.WaitUntil(state.mutex, deadline) && state.answers == before) return nullptr;
  }
  return state.last;
}

}  // namespace onecopy::metrics
