// A path: how one transfer's bytes will travel. Made by the planner and executed by the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "onecopy/transfer.h"

namespace onecopy::plan {

// A plan as the engine executes it: what everybody sees of it, and what only the daemon needs to
// know. Where one end is staged through pinned slots, the path has a step into them and one out of
// them.
struct Path : Plan {
  bool source_staged = false;
  bool destination_staged = false;
  int32_t slots_numa_node = -1;  // where those of a move inside the node are best; -1: anywhere
  std::string via =
      {};  // the GPU through whose memory a file's bytes go on to another; empty: none
  bool emulated = false;  // a software device does some of it
  // What a probe measured, whatever the estimate; 0: nothing.
  double probed_bytes_per_second = 0;

  friend bool operator==(const Path&, const Path&) = default;
};

// "2026-01-31T13:37:00Z".
std::string TextOf(std::chrono::system_clock::time_point time);

// What a plan's estimate rests on: "estimated", "measured by a probe, 2026-01-31T13:37:00Z",
// "measured by 3 transfers, the last 2026-01-31T13:37:00Z".
std::string BasisOf(const Plan& plan);

}  // namespace onecopy::plan
