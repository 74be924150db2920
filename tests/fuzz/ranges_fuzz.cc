// Files of ranges, as `onecopy cp --ranges` reads them.
#include <sstream>

#include "client/cli/ranges_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onecopy;
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  const auto ranges = cli::ParseRanges(lines, "ranges.jsonl");
  if (ranges.ok()) {
    EXPECT(!ranges->ranges.empty());
  } else {
    EXPECT(ranges.status().code() == Code::kInvalidArgument ||
           ranges.status().code() == Code::kOutOfRange);
    EXPECT(!ranges.status().message().empty());
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  return {
      R"({"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": 4096, "bytes": 65536}})"
      "\n\n"
      R"({"source": {"offset": 8, "bytes": 4, "stride": 32, "count": 1000}, "destination": {"offset": 0, "bytes": 4000}})",
      R"({"source": {"bytes": 1}, "destination": {}})", "[1, 2]\n", "{", "null"};
}
