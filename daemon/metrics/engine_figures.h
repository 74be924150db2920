// Asks the engine for its figures, and waits no longer than a scrape may.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "daemon/engine/api/figures.h"
#include "transport/core/unique_function.h"

namespace onecopy::metrics {

// Several threads may call it at once. It asks the engine one question at a time. Threads that call
// meanwhile wait for the same answer, so an engine that hangs is asked only once. The engine may
// answer after this object has gone.
class EngineFigures {
 public:
  using Ask = std::function<void(UniqueFunction<void(engine::Figures)> reply)>;

  // `ask` must not block; it replies on any thread, or never.
  explicit EngineFigures(Ask ask);

  // Null where there has been no answer for that long.
  std::shared_ptr<const engine::Figures> Get(std::chrono::milliseconds patience) const;

 private:
  struct State;

  const Ask ask_;
  const std::shared_ptr<State> state_;
};

}  // namespace onecopy::metrics
