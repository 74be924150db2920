// What the ends of a connection say to each other beside the payload: small frames in SENDs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transport/core/contracts/link.h"

namespace onecopy::verbs {

enum class FrameKind : uint8_t {
  kHello = 1,     // reader, first thing on each lane: it carries
  kPing = 2,      // either, on a lane that has been quiet: the device answers, or the lane is dead
  kMessage = 3,   // of a channel
  kRevoke = 4,    // owner: an export ends; `subject` is its id
  kRevoked = 5,   // reader: nothing of it is being read any more
  kRepair = 6,    // reader: a new queue pair for the lane `subject`; the text is its address
  kRepaired = 7,  // owner: its end of that
  kBye = 8,       // either: the connection ends; the text says why
};

// Frames from kMessage on are numbered, from 1, in the order in which they were sent: a lane that
// dies may lose them, and they are then sent again on another.
struct Frame {
  FrameKind kind = FrameKind::kPing;
  uint64_t number = 0;   // 0: not numbered
  uint64_t subject = 0;  // channel, or export
  std::string_view text;
};

inline constexpr size_t kFrameHeaderBytes = 17;
inline constexpr size_t kMaxFrameBytes = kFrameHeaderBytes + Connection::kMaxMessageBytes;

std::string Encode(const Frame& frame);
// The text lies in `bytes`. Nothing for what is not a frame.
std::optional<Frame> DecodeFrame(std::span<const std::byte> bytes);

}  // namespace onecopy::verbs
