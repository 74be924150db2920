// What long copies of rings tell of their path's rate.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/probing/rate_watch.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread.
class LongRates {
 public:
  LongRates(Transfers& transfers, RateWatch& watch) : transfers_(transfers), watch_(watch) {}

  // Of copies that this node makes by itself.
  struct Way {
    std::string from_node;  // where the bytes come from
    std::string path;
    std::string link;
    Place from = {};
    Place to = {};
    double probed_bytes_per_second = 0;  // 0: by no probe
  };
  // Keeps the rate of a copy that succeeded, unless another transfer disturbed it; see
  // RateWatch::Note. `alone`: no other long copy of a ring was under way. Call it in the order in
  // which copies ended.
  void Note(const Way& way, os::Clock::time_point begun, bool alone, TransferInfo& info);

 private:
  Transfers& transfers_;
  RateWatch& watch_;
};

}  // namespace onecopy::engine
