// The long transfers of all rings, for the one thread that serves them: whether one had the copy
// engines to itself tells whether its rate means anything.
#pragma once

#include <cstdint>

namespace onecopy::ring {

// The ring's thread only.
class LongWork {
 public:
  // Of one transfer: how many had been begun with it, and whether it was the only one then.
  struct Start {
    uint64_t begun = 0;
    bool alone = true;
  };

  Start Begin() {
    ++begun_;
    return {begun_, under_way_++ == 0};
  }
  // Whether no other one was under way with it from its first byte to its last.
  bool End(const Start& start) {
    --under_way_;
    return start.alone && begun_ == start.begun;
  }

 private:
  uint64_t begun_ = 0;
  uint64_t under_way_ = 0;
};

}  // namespace onecopy::ring
