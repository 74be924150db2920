// What a choice of settings reaches here.
#pragma once

#include <functional>
#include <string>

#include "bench/daemons/daemon.h"
#include "bench/tune/choice.h"

namespace onecopy::bench {

// The memories between which a staged transfer is measured: two GPUs of this machine, or one of
// them twice, or host memory where there is none.
struct TuneEnds {
  std::string from;  // a GPU's UUID, or "host"
  std::string to;
  std::string text;  // for people
};
Result<TuneEnds> FindTuneEnds(const DaemonOptions& daemon);

struct TuneOptions {
  DaemonOptions daemon;  // without `tuned`; the choices set slots and [tcp]
  uint64_t bytes = uint64_t{256} << 20;
  unsigned samples = 5;                // after one warm-up
  std::function<bool()> stopped = {};  // true: CANCELLED
};

// The median rate of `tcp-staged` between two daemons that run with this choice, started for it.
// Every payload is verified; DATA_LOSS where one arrived wrong.
Result<double> MeasureChoice(const TuneOptions& options, const TuneEnds& ends,
                             const Choice& choice);

}  // namespace onecopy::bench
