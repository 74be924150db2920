#include "client/cli/ranges_file.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/error.h"

namespace onecopy::cli {
namespace {

using Json = nlohmann::json;

Status Bad(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadArgument, why,
          R"(write {"source": {"offset": 0, "bytes": 4096}, "destination": {"offset": 0, )"
          R"("bytes": 4096}} on a line, with "stride" and "count" where a range is strided)"};
}

Result<uint64_t> ParseNumber(const Json& value, const std::string& name) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_string()) return Bad(Quote(name) + " is no size");
  auto bytes = ParseBytes(value.get<std::string>());
  if (!bytes.ok()) return bytes.status().WithContext(Quote(name));
  return bytes;
}

Result<StridedRange> ParseRange(const Json& object) {
  if (!object.is_object()) return Bad("a range must be a JSON object");
  if (!object.contains("offset") || !object.contains("bytes")) {
    return Bad("a range has no \"offset\" or no \"bytes\"");
  }
  if (object.contains("stride") != object.contains("count")) {
    return Bad("\"stride\" and \"count\" belong together");
  }
  StridedRange range;
  for (const auto& [name, value] : object.items()) {
    uint64_t* const field = name == "offset"   ? &range.offset
                            : name == "bytes"  ? &range.bytes
                            : name == "stride" ? &range.stride
                            : name == "count"  ? &range.count
                                               : nullptr;
    if (field == nullptr) return Bad(Quote(name) + " is no field of a range");
    ONECOPY_ASSIGN_OR_RETURN(*field, ParseNumber(value, name));
  }
  return range;
}

Result<RangePair> ParseLine(const std::string& line) {
  const Json object = Json::parse(line, nullptr, false);
  const bool pair = object.is_object() && object.size() == 2 && object.contains("source") &&
                    object.contains("destination");
  if (!pair) return Bad("this is no JSON object with \"source\" and \"destination\"");
  RangePair ranges;
  ONECOPY_ASSIGN_OR_RETURN(ranges.source, ParseRange(object["source"]));
  ONECOPY_ASSIGN_OR_RETURN(ranges.destination, ParseRange(object["destination"]));
  return ranges;
}

}  // namespace

Result<std::vector<RangePair>> ParseRanges(std::istream& lines, const std::string& name) {
  std::vector<RangePair> ranges;
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto pair = ParseLine(line);
    if (!pair.ok()) {
      return pair.status().WithContext(Printable(name) + ":" + std::to_string(number));
    }
    if (ranges.size() == kMaxRanges) {
      return Status(Code::kInvalidArgument, reasons::kBadArgument,
                    Printable(name) + " has more than " + std::to_string(kMaxRanges) + " ranges",
                    "split it into several transfers");
    }
    ranges.push_back(*pair);
  }
  if (ranges.empty()) return Bad(Printable(name) + " has no ranges");
  return ranges;
}

Result<std::vector<RangePair>> ReadRangesFile(const std::string& path) {
  if (path == "-") return ParseRanges(std::cin, "standard input");
  errno = 0;
  std::ifstream file(path);
  // A folder can be opened, and not read.
  if (!file || (file.peek() == std::ifstream::traits_type::eof() && file.bad())) {
    return os::ErrnoStatus(errno == 0 ? EIO : errno, "cannot read ranges file " + Quote(path));
  }
  file.clear();
  return ParseRanges(file, path);
}

}  // namespace onecopy::cli
