// A path: how one transfer's bytes will travel. Printable data, made by the planner and executed by
// the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/status.h"
#include "transport/core/step.h"

namespace onecopy::plan {

// What the caller accepts. Empty means: anything.
struct Policy {
  std::string path_glob;                   // name from the ladder; * and ? stand for others
  std::optional<uint32_t> at_most_copies;  // steps that the path is planned to execute, and those
                                           // of the client
  std::string link;                        // name of the link to use
  bool allow_emulated = false;             // whether at_most_copies may be met by a software device
  // Whether the client copies between one end and a file of its own: one copy more.
  bool client_file = false;

  friend bool operator==(const Policy&, const Policy&) = default;
};

// Where one end is staged through pinned slots, the path has a step into them and one out of them.
struct Path {
  std::string name;  // from the ladder: "tcp-staged"
  std::string link;  // empty inside a node
  bool source_staged = false;
  bool destination_staged = false;
  bool emulated = false;
  std::vector<Step> steps;
  double estimated_bytes_per_second = 0;  // of a transfer of the request's size
  bool measured = false;                  // whether the estimate comes from a measurement
  // Of that measurement: when, as far as that is known, and how many transfers it rests on; 0: it
  // was a probe.
  std::chrono::system_clock::time_point measure_time = {};
  uint32_t measured_transfers = 0;
  double probed_bytes_per_second =
      0;  // what a probe lets expect, whatever the estimate; 0: nothing

  uint32_t copies() const { return static_cast<uint32_t>(steps.size()); }
  friend bool operator==(const Path&, const Path&) = default;
};

// "2026-01-31T13:37:00Z".
std::string TextOf(std::chrono::system_clock::time_point time);

// What a path's estimate rests on: "estimated", "measured by a probe, 2026-01-31T13:37:00Z",
// "measured by 3 transfers, the last 2026-01-31T13:37:00Z".
std::string BasisOf(const Path& path);

struct Plan {
  Path path;
  std::vector<Refusal> refused;  // every other path of the ladder that sounds better, and why not
  // Where this path is taken although it was measured to be slow, to find out whether it still is:
  // what that measurement said.
  std::string tried_again = {};

  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace onecopy::plan
