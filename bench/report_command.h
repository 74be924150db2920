// `onecopy-bench report`.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::bench {

struct ReportOptions {
  std::vector<std::string> files;  // that run --json has written, at least one
  std::string html_file;           // to write
};

// NOT_FOUND or INVALID_ARGUMENT, naming the file, for a file that cannot be read or is not a
// report. Nothing is written then.
Status Report(const ReportOptions& options);

}  // namespace onecopy::bench
