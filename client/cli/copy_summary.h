// The summary that `cp` of many files prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "client/cli/output/document.h"
#include "client/cli/session.h"

namespace onecopy::cli {

// For people one receipt for each path that was taken, of all copies together; for programs every
// receipt. Begins when it is made; the copies are made one after the other.
class CopySummary {
 public:
  // `destination` as it is shown.
  CopySummary(Session& session, std::string destination)
      : session_(session), destination_(std::move(destination)), last_(Clock::now()) {}

  // A copy that has ended now, of so many files.
  void Add(Move move, uint64_t files);
  // Prints; `more` goes into the document.
  void End(Json more);

 private:
  using Clock = std::chrono::steady_clock;
  struct Together {
    Move move;
    uint64_t files = 0;
  };

  Session& session_;
  const std::string destination_;
  Clock::time_point last_;  // when the copy before ended
  Json copies_ = Json::array();
  std::map<std::string, Together> by_path_;
};

}  // namespace onecopy::cli
