// The deadline of all copies of a command.
#pragma once

#include <chrono>
#include <optional>

#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {

// One thread.
class Deadline {
 public:
  explicit Deadline(const FileCopyOptions& options) : options_(options) {
    if (options_.deadline) until_ = Clock::now() + *options_.deadline;
  }

  // The options of a copy that begins now, with the time that is left for it. DEADLINE_EXCEEDED
  // when that is none.
  Result<FileCopyOptions> Next() {
    if (!until_) return options_;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until_ - Clock::now());
    if (left <= left.zero()) {
      return Status(Code::kDeadlineExceeded, reasons::kDeadline, "the deadline has passed",
                    "allow more time with a later --deadline");
    }
    options_.deadline = left;
    return options_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  FileCopyOptions options_;
  std::optional<Clock::time_point> until_;
};

}  // namespace onecopy::cli
