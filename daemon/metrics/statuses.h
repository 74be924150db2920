// The document that the status page reads (daemon/status), made again once a second at most.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "daemon/metrics/scrapes.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::metrics {

// On the thread of its Scrapes, which asks the engine for figures with `status` and outlives this.
// However often it is asked, the engine plans once a second: any user of the machine may ask.
class Statuses {
 public:
  using Clock = std::chrono::steady_clock;
  using Reply = UniqueFunction<void(const std::string& document)>;

  explicit Statuses(Scrapes& scrapes, std::function<Clock::time_point()> now = Clock::now)
      : scrapes_(scrapes), now_(std::move(now)) {}

  // Replies once, at once or later. Where the engine does not answer the document says so.
  void Get(Reply reply);

 private:
  static constexpr std::chrono::seconds kLifetime{1};

  bool IsFresh() const { return !document_.empty() && now_() - made_ < kLifetime; }

  Scrapes& scrapes_;
  const std::function<Clock::time_point()> now_;
  std::string document_;
  Clock::time_point made_;
};

}  // namespace onecopy::metrics
