// `onecopy-bench matrix`.
#pragma once

#include <functional>
#include <string>

#include "bench/daemons/daemon.h"
#include "bench/program.h"
#include "onecopy/result.h"

namespace onecopy::bench {

// As typed.
struct MatrixArguments {
  std::string size = "256MiB";
  unsigned samples = 5;
  std::string json_file;
  std::string onecopyd;
  DaemonOptions daemon;
};

// Measures copies between each two GPUs of this machine, by plain CUDA and by a daemon that it
// starts, and prints a matrix of each figure. Progress goes to io.progress. The exit status: 0; 1
// where a figure could not be measured, a pair without P2P aside; 130 where `stopped` ended it
// early; or what kept it from an end: NO_DRIVER, NO_GPU, an argument that is wrong. Main thread.
Result<int> MeasureMatrix(const MatrixArguments& arguments, const std::function<bool()>& stopped,
                          const ProgramIo& io);

}  // namespace onecopy::bench
