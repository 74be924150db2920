// Copies that the ring's thread makes for rings of other daemons.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "daemon/ring/entry.h"
#include "daemon/ring/long_work.h"
#include "onecopy/status.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::ring {

// How one ended.
struct ErrandEnd {
  Status status;
  Clock::time_point begun{};
  Clock::time_point ended{};
  bool alone = false;  // no other long copy was under way with it
};

struct Errand {
  uint64_t from = 0;  // offsets in the regions of the way
  uint64_t to = 0;
  uint64_t bytes = 0;
  UniqueFunction<void(const ErrandEnd&)> done;  // once, on the ring's thread
};

// The ring's thread only.
class Errands {
 public:
  // `long_work` outlives it.
  explicit Errands(LongWork& long_work) : long_work_(long_work) {}

  // No more than SmallCopyRoute::kMaxUnderWay of a way are under way; the caller counts them.
  void Begin(std::shared_ptr<SmallCopyRoute> way, std::vector<Errand> errands);
  // Completes what has ended; true when there was something.
  bool Finish();
  bool any() const { return !lanes_.empty(); }
  // Cancels what waits for another node.
  void Cancel();

 private:
  struct Operation {
    Errand errand;
    uint64_t mark = 0;
    Clock::time_point begun{};
    LongWork::Start start;  // of a long one
  };
  // What is under way on one way, which ends in the order in which it was begun.
  struct Lane {
    std::shared_ptr<SmallCopyRoute> way;
    std::deque<Operation> operations;
  };

  Lane& LaneOf(std::shared_ptr<SmallCopyRoute> way);
  void Conclude(Operation& operation, Status status);

  LongWork& long_work_;
  std::list<Lane> lanes_;
};

}  // namespace onecopy::ring
