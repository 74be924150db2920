// Something that moves a payload from one place to another: a work, or the ceiling of one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

struct Moved {
  double seconds = 0;     // from the first byte submitted to the last one's arrival
  unsigned lanes = 0;     // streams that carried it, where there are such
  bool loopback = false;  // whether those never left the machine
  // CPU time that moving took, of everything that took part; absent: not known.
  std::optional<double> cpu_seconds = {};
  std::map<std::string, double> details = {};  // further figures, named with their unit
};

// One thread at a time. For each sample: Fill, Move, Verify, of which Move alone is timed.
class Mover {
 public:
  virtual ~Mover() = default;

  // Puts the payload of this seed at the source.
  virtual Status Fill(uint64_t seed) = 0;
  virtual Result<Moved> Move() = 0;
  // Whether the destination holds exactly that payload; an error where it cannot be read.
  virtual Result<bool> Verify(uint64_t seed) = 0;
};

}  // namespace onecopy::bench
