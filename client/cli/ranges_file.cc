#include "client/cli/ranges_file.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::cli {
namespace {

Status Bad(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadArgument, why,
          R"(write {"source": {"offset": 0, "bytes": 4096}, "destination": {"offset": 0, )"
          R"("bytes": 4096}} on a line, with "stride" and "count" where a range is strided, and )"
          R"("buffer" where it is in another buffer)"};
}

Result<uint64_t> ParseNumber(const nlohmann::json& value, const std::string& name) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_string()) return Bad(Quote(name) + " is not a size");
  auto bytes = ParseBytes(value.get<std::string>());
  if (!bytes.ok()) return bytes.status().WithContext(Quote(name));
  return bytes;
}

// The buffers of one end, as lines name them.
class Names {
 public:
  explicit Names(std::vector<std::string>* names) : names_(names) {}

  // Nothing where there are too many.
  Result<uint32_t> NumberOf(const std::string& name) {
    const auto [known, added] = numbers_.try_emplace(name, names_->size() + 1);
    if (!added) return known->second;
    if (names_->size() + 1 >= kMaxBuffers) {
      return Bad("the ranges name more than " + std::to_string(kMaxBuffers) + " buffers");
    }
    names_->push_back(name);
    return known->second;
  }

 private:
  std::vector<std::string>* const names_;
  std::map<std::string, uint32_t> numbers_;
};

Result<StridedRange> ParseRange(const nlohmann::json& object, Names& names, uint32_t* buffer) {
  if (!object.is_object()) return Bad("a range must be a JSON object");
  if (!object.contains("offset") || !object.contains("bytes")) {
    return Bad("a range needs \"offset\" and \"bytes\"");
  }
  if (object.contains("stride") != object.contains("count")) {
    return Bad("\"stride\" and \"count\" must be given together");
  }
  StridedRange range;
  for (const auto& [name, value] : object.items()) {
    if (name == "buffer") {
      if (!value.is_string() || value.get<std::string>().empty()) {
        return Bad("\"buffer\" is not a name");
      }
      ONECOPY_ASSIGN_OR_RETURN(*buffer, names.NumberOf(value.get<std::string>()));
      continue;
    }
    uint64_t* const field = name == "offset"   ? &range.offset
                            : name == "bytes"  ? &range.bytes
                            : name == "stride" ? &range.stride
                            : name == "count"  ? &range.count
                                               : nullptr;
    if (field == nullptr) return Bad(Quote(name) + " is not a field of a range");
    ONECOPY_ASSIGN_OR_RETURN(*field, ParseNumber(value, name));
  }
  return range;
}

Result<RangePair> ParseLine(const std::string& line, Names& sources, Names& destinations) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  const bool pair = object.is_object() && object.size() == 2 && object.contains("source") &&
                    object.contains("destination");
  if (!pair) return Bad("this is not a JSON object with \"source\" and \"destination\"");
  RangePair ranges;
  ONECOPY_ASSIGN_OR_RETURN(ranges.source,
                           ParseRange(object["source"], sources, &ranges.source_buffer));
  ONECOPY_ASSIGN_OR_RETURN(ranges.destination, ParseRange(object["destination"], destinations,
                                                          &ranges.destination_buffer));
  return ranges;
}

}  // namespace

void RangeList::AddTo(TransferRequest* request) const {
  request->ranges = ranges;
  for (const std::string& name : more_sources) request->more_sources.push_back({{}, name});
  for (const std::string& name : more_destinations) {
    request->more_destinations.push_back({{}, name});
  }
}

Result<RangeList> ParseRanges(std::istream& lines, const std::string& name) {
  RangeList list;
  Names sources(&list.more_sources);
  Names destinations(&list.more_destinations);
  std::vector<RangePair>& ranges = list.ranges;
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto pair = ParseLine(line, sources, destinations);
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
  return list;
}

Result<RangeList> ReadRangesFile(const std::string& path) {
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
