// What may be chosen for the staged path over tcp, and the search for the best of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::bench {

// Keys of [staging] and [tcp], as onecopyd's configuration has them.
struct Choice {
  uint64_t slot_bytes = uint64_t{2} << 20;
  unsigned slots = 64;
  unsigned lanes = 0;                // 0: the daemon's own choice
  uint64_t socket_buffer_bytes = 0;  // 0: the kernel's

  std::string ToString() const;
  friend bool operator==(const Choice&, const Choice&) = default;
};

struct Trial {
  Choice choice;
  double bytes_per_second = 0;
};

// All that was tried, the defaults first; `best` is one of them.
struct Search {
  std::vector<Trial> trials;
  Trial best;
};

// One setting after the other: its values beside the best so far, in the order in which they
// matter. Something else than what was best must be better by a twentieth, so that noise decides
// nothing; what `measure` fails for is left out, except for the defaults, whose failure ends the
// search, as CANCELLED ends it anywhere. `measure` gives bytes per second. `cores`: those that may
// be used.
Result<Search> FindBest(unsigned cores,
                        const std::function<Result<double>(const Choice&)>& measure);

// The file for onecopyd's `tuned`. `heading`: lines of a comment.
std::string TunedFile(const Choice& choice, const std::vector<std::string>& heading);

}  // namespace onecopy::bench
