// `onecopy-bench tune`.
#pragma once

#include <functional>
#include <string>

#include "bench/program.h"
#include "bench/tune/measure.h"

namespace onecopy::bench {

// As typed.
struct TuneArguments {
  std::string size = "256MiB";
  std::string write;  // the file for onecopyd; empty: it is only printed
  std::string onecopyd;
  TuneOptions options;
};

// Tries settings of the staged path on this machine and prints the best, or writes them where
// onecopyd reads them. Progress goes to io.progress. The exit status, or what kept it from an end.
Result<int> TuneMachine(const TuneArguments& arguments, const ProgramIo& io);

}  // namespace onecopy::bench
