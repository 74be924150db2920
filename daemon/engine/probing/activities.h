// Operations that must end before the workers and the engine's thread do.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "transport/core/base/executor.h"

namespace onecopy::engine {

// Engine thread, except for the end of an activity, which may be anywhere.
class Activities {
 public:
  explicit Activities(Executor& engine) : engine_(engine) {}

  // Under way for as long as it is held.
  std::shared_ptr<void> Begin() {
    ++count_;
    return {nullptr, [this](void*) {
              engine_.Post([this] {
                if (--count_ == 0) Tell();
              });
            }};
  }

  // `idle` runs once, when nothing is under way (now, if so). Set once.
  void OnIdle(Task idle) {
    idle_ = std::move(idle);
    if (count_ == 0) Tell();
  }

 private:
  void Tell() {
    if (idle_) std::exchange(idle_, nullptr)();
  }

  Executor& engine_;
  size_t count_ = 0;
  Task idle_;
};

}  // namespace onecopy::engine
