// A path: how one transfer's bytes will travel. Printable data, made by the planner and executed by
// the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/core/refusal.h"
#include "transport/core/step.h"

namespace onecopy::plan {

// What the caller accepts. Empty means: anything.
struct Policy {
  std::string path_glob;                   // name from the ladder; * and ? stand for others
  std::optional<uint32_t> at_most_copies;  // steps that the path is planned to execute
  std::string link;                        // name of the link to use
  bool allow_emulated = false;             // whether at_most_copies may be met by a software device

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

  uint32_t copies() const { return static_cast<uint32_t>(steps.size()); }
  friend bool operator==(const Path&, const Path&) = default;
};

struct Plan {
  Path path;
  std::vector<Refusal> refused;  // every other path of the ladder that sounds better, and why not

  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace onecopy::plan
