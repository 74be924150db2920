// A list of ranges, as `--ranges FILE` reads it.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::cli {

// One JSON object a line; empty lines are skipped:
//   {"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": 4096, "bytes": 65536}}
//   {"source": {"offset": 8, "bytes": 4, "stride": 32, "count": 1000},
//    "destination": {"offset": 0, "bytes": 4000}}                        (on one line)
// Sizes are numbers of bytes, or text as in "64KiB". INVALID_ARGUMENT (BAD_ARGUMENT, BAD_SIZE) with
// the line's number for anything else, and for a list without ranges.
Result<std::vector<RangePair>> ParseRanges(std::istream& lines, const std::string& name);

// The same of a file, or of standard input where it is "-". NOT_FOUND (FILE_NOT_FOUND).
Result<std::vector<RangePair>> ReadRangesFile(const std::string& path);

}  // namespace onecopy::cli
