// The deadline of a command, over all that it does.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "onecopy/calls_end_by.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {

// Runs from when it is made. One thread.
class Deadline {
 public:
  // Absent: none.
  explicit Deadline(std::optional<std::chrono::milliseconds> limit) {
    if (limit) until_ = Clock::now() + std::min(*limit, kLongest);
  }

  // What is left of it, for what begins now. DEADLINE_EXCEEDED when that is nothing.
  Result<std::optional<std::chrono::milliseconds>> Left() const {
    if (!until_) return std::optional<std::chrono::milliseconds>();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until_ - Clock::now());
    if (left > left.zero()) return std::optional(left);
    return Status(Code::kDeadlineExceeded, reasons::kDeadline, "the deadline has passed",
                  "allow more time with a later --deadline");
  }
  // The options of a copy that begins now, likewise.
  Result<FileCopyOptions> Next(FileCopyOptions options) const {
    ONECOPY_ASSIGN_OR_RETURN(options.deadline, Left());
    return options;
  }

  // What `calls` returns; each call to the daemon in it ends by the deadline.
  template <typename Calls>
  auto Within(const Calls& calls) const {
    const CallsEndBy limit(until_);
    return calls();
  }
  // Likewise, for what undoes something, also after the deadline: it has at least a second.
  template <typename Calls>
  auto Undo(const Calls& calls) const {
    std::optional<Clock::time_point> until = until_;
    if (until) until = std::max(*until, Clock::now() + kLeastToUndo);
    const CallsEndBy limit(until);
    return calls();
  }

 private:
  using Clock = std::chrono::steady_clock;
  // What a clock of nanoseconds can add to any time that it will ever show.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365 * 100);
  static constexpr std::chrono::seconds kLeastToUndo{1};

  std::optional<Clock::time_point> until_;
};

}  // namespace onecopy::cli
