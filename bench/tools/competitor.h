// Other software that moves memory, run by the scripts of bench/competitors.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/measure/mover.h"
#include "bench/tools/tool_mover.h"

namespace onecopy::bench {

struct CompetitorParams {
  std::string folder = {};  // that bench/competitors/install has made; empty: none
  std::string name = {};    // "nixl", "mooncake"; "ucx" needs no folder and has nothing tuned
  bool tuned = false;
  bool gpu_memory = false;
  size_t gpus = 1;  // to use

  // Whether it looks at what it has moved.
  bool verifies() const { return name != "ucx"; }
};

// A sample is a new pair of processes, which makes a payload of its own and looks at what arrived.
// FAILED_PRECONDITION (NOT_REQUESTED) without a folder, NOT_FOUND where it has no such script.
Result<std::unique_ptr<Mover>> MakeCompetitor(const CompetitorParams& params, uint64_t bytes);

// "rate 1471613711.5 verified 1"
std::optional<ToolSaid> ReadCompetitor(const std::string& line);

}  // namespace onecopy::bench
