// Frames between the ends of a connection, each once and in order, whatever becomes of the lanes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"
#include "transport/link/verbs/control.h"
#include "transport/link/verbs/lane.h"

namespace onecopy::verbs {

// Lives on its connection's thread.
class ControlChannel {
 public:
  // `deliver` takes the peer's numbered frames, each in its turn.
  ControlChannel(const LaneList& lanes, std::function<void(const Frame&)> deliver)
      : lanes_(lanes), deliver_(std::move(deliver)) {}

  // Numbers the frame and sends it on the lane for frames, which changes only when it fails.
  // Returns the number; without a lane the frame is kept for the next one.
  uint64_t Send(FrameKind kind, uint64_t subject, std::string_view text);
  // A numbered frame of ours has arrived, with all before it.
  void OnArrived(uint64_t number);
  // After that lane has failed: what may not have arrived goes out again on another.
  void OnLaneFailed(unsigned lane);
  // Whether the peer lets far more wait than it is ever sent: it does not receive.
  bool overfull() const { return unacknowledged_bytes_ > kMaxUnacknowledgedBytes; }
  bool HasLane() { return Carrier() != nullptr; }

  // A numbered frame of the peer's. Fails when too many have come before one that is missing.
  Status OnFrame(const Frame& frame);

 private:
  struct Numbered {
    uint64_t number = 0;
    std::string bytes;
  };
  static constexpr uint64_t kMaxUnacknowledgedBytes = uint64_t{64} << 20;
  static constexpr uint64_t kFrameOverhead = 256;
  Lane* Carrier();

  const LaneList& lanes_;
  const std::function<void(const Frame&)> deliver_;
  int lane_ = -1;
  uint64_t next_number_ = 1;
  std::deque<Numbered> unacknowledged_;
  uint64_t unacknowledged_bytes_ = 0;
  uint64_t next_expected_ = 1;
  std::map<uint64_t, std::string> early_;  // came before an earlier one
};

}  // namespace onecopy::verbs
