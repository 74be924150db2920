#include "client/cli/ranges_file.h"

#include <sstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::RangePair;
using onecopy::Status;
using onecopy::cli::ParseRanges;
namespace reasons = onecopy::reasons;

namespace {

onecopy::Result<onecopy::cli::RangeList> Parsed(const std::string& text) {
  std::istringstream lines(text);
  return ParseRanges(lines, "list");
}

}  // namespace

TEST_CASE("a list of ranges has a pair on each line, plain or strided, in bytes or as sizes") {
  const auto ranges = Parsed(
      R"({"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": 7, "bytes": 65536}})"
      "\n\n  \n"
      R"({"destination": {"bytes": 40, "offset": "1MiB"},)"
      R"( "source": {"offset": 8, "bytes": 4, "stride": 32, "count": 10}})");
  REQUIRE_OK(ranges);
  CHECK(ranges->ranges == std::vector<RangePair>{{{0, 65536, 0, 1}, {7, 65536, 0, 1}},
                                                 {{8, 4, 32, 10}, {1 << 20, 40, 0, 1}}});
  CHECK(ranges->more_sources.empty());
  CHECK(ranges->more_destinations.empty());
}

TEST_CASE("a line may name another buffer at either end") {
  const auto list = Parsed(
      R"({"source": {"buffer": "k0", "offset": 0, "bytes": 4}, "destination": {"offset": 0, "bytes": 4}})"
      "\n"
      R"({"source": {"buffer": "k1", "offset": 0, "bytes": 4}, "destination": {"buffer": "v", "offset": 4, "bytes": 4}})"
      "\n"
      R"({"source": {"buffer": "k0", "offset": 4, "bytes": 4}, "destination": {"offset": 8, "bytes": 4}})");
  REQUIRE_OK(list);
  CHECK(list->more_sources == std::vector<std::string>{"k0", "k1"});
  CHECK(list->more_destinations == std::vector<std::string>{"v"});
  CHECK(list->ranges == std::vector<RangePair>{{{0, 4, 0, 1}, {0, 4, 0, 1}, 1, 0},
                                               {{0, 4, 0, 1}, {4, 4, 0, 1}, 2, 1},
                                               {{4, 4, 0, 1}, {8, 4, 0, 1}, 1, 0}});
  onecopy::TransferRequest request;
  list->AddTo(&request);
  CHECK(request.ranges == list->ranges);
  REQUIRE(request.more_sources.size() == 2);
  CHECK(request.more_sources[1].buffer == "k1");
  CHECK(request.more_destinations.size() == 1);
}

TEST_CASE("what is no list of ranges is refused with its line") {
  const std::string good =
      R"({"source": {"offset": 0, "bytes": 4}, "destination": {"offset": 0, "bytes": 4}})"
      "\n";
  for (
      const char* bad : {
          "hello",
          "[0, 4, 4]",
          "{}",
          R"({"source": {"offset": 0, "bytes": 4}})",
          R"({"source": 4, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": -1, "bytes": 4}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 1.5, "bytes": 4}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0, "bytes": "x"}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0, "bytes": 4, "stride": 8}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0, "bytes": 4, "step": 8}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0, "bytes": 4}, "destination": {"offset": 0, "bytes": 4}, "x": 1})",
          R"({"source": {"offset": 0, "bytes": 4, "buffer": 1}, "destination": {"offset": 0, "bytes": 4}})",
          R"({"source": {"offset": 0, "bytes": 4, "buffer": ""}, "destination": {"offset": 0, "bytes": 4}})",
      }) {
    INFO(bad);
    const Status status = Parsed(good + bad).status();
    CHECK(status.code() == onecopy::Code::kInvalidArgument);
    CHECK(status.message().starts_with("list:2"));
  }
  CHECK(Parsed("\n \n").status().reason() == reasons::kBadArgument);
  CHECK(onecopy::cli::ReadRangesFile("/nowhere/list").status().reason() == reasons::kFileNotFound);
}

TEST_CASE("a ranges file that cannot be read is named, with the reason") {
  const onecopy::Status missing = onecopy::cli::ReadRangesFile("/nowhere/ranges").status();
  CHECK(missing.code() == onecopy::Code::kNotFound);
  CHECK(missing.message() ==
        "cannot read ranges file \"/nowhere/ranges\": No such file or directory (ENOENT)");
  const onecopy::Status folder = onecopy::cli::ReadRangesFile("/proc").status();
  CHECK(folder.message() == "cannot read ranges file \"/proc\": Is a directory (EISDIR)");
}
