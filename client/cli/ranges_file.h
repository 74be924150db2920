// A list of ranges, as `--ranges FILE` reads it.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::cli {

// Ranges, and the buffers that they name beside those of the command: number i of an end is
// more_...[i - 1].
struct RangeList {
  std::vector<RangePair> ranges = {};
  std::vector<std::string> more_sources = {};
  std::vector<std::string> more_destinations = {};

  // Puts them into a request whose ends are those of the command.
  void AddTo(TransferRequest* request) const;
};

// One JSON object a line; empty lines are skipped:
//   {"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": 4096, "bytes": 65536}}
//   {"source": {"offset": 8, "bytes": 4, "stride": 32, "count": 1000},
//    "destination": {"offset": 0, "bytes": 4000}}                        (on one line)
// With "buffer" a range is in the buffer of that name, on the same node as the command's.
// Sizes are numbers of bytes, or text as in "64KiB". INVALID_ARGUMENT (BAD_ARGUMENT, BAD_SIZE) with
// the line's number for anything else, and for a list without ranges.
Result<RangeList> ParseRanges(std::istream& lines, const std::string& name);

// The same of a file, or of standard input where it is "-". NOT_FOUND (FILE_NOT_FOUND).
Result<RangeList> ReadRangesFile(const std::string& path);

}  // namespace onecopy::cli
