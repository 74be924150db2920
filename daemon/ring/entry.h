// One transfer of a ring, as its thread saw it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/ring/outcome.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::ring {

using Clock = std::chrono::steady_clock;

struct Entry {
  uint64_t number = 0;
  uint64_t route = 0;  // Route::serial; 0: it named none
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;       // of all pieces
  uint64_t from_bytes = 0;  // from the first byte of any piece to the last
  uint64_t to_bytes = 0;
  uint64_t pieces = 0;               // of a list; 0: it had none
  std::optional<SmallSum> sum = {};  // of one that succeeded, if it was asked for
  Outcome outcome = Outcome::kSucceeded;
  Clock::time_point taken;
  Clock::time_point begun;  // as `taken` where nothing was begun
  Clock::time_point ended;
  bool alone = true;  // of a long one that has ended: no other long one was under way with it
};

}  // namespace onecopy::ring
