#include "client/nixl/settings.h"

#include <charconv>
#include <string_view>

#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

Status Bad(const std::string& message) {
  return {Code::kInvalidArgument, reasons::kBadConfig, message,
          "the settings of backend ONECOPY are run_dir (a folder), at_most (a number of copies), "
          "path (such as rdma-*), checksum (true or false) and grant_to (users such as 1000@west, "
          "separated by commas)"};
}

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

}  // namespace

abi::Parameters DefaultParameters() {
  return {{"run_dir", ""}, {"at_most", ""}, {"path", ""}, {"checksum", ""}, {"grant_to", ""}};
}

Result<Settings> ParseSettings(const abi::Parameters& parameters) {
  Settings settings;
  for (const auto& [key, value] : parameters) {
    if (key == "run_dir") {
      settings.run_dir = value;
    } else if (key == "path") {
      settings.policy.path_glob = value;
    } else if (key == "grant_to") {
      settings.grant_to = Split(value);
    } else if (key == "checksum") {
      if (!value.empty() && value != "true" && value != "false") {
        return Bad("checksum is \"" + value + "\", neither true nor false");
      }
      settings.checksum = value == "true";
    } else if (key != "at_most") {
      return Bad("backend ONECOPY has no setting \"" + key + "\"");
    } else if (!value.empty()) {
      uint32_t copies = 0;
      const char* const end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, copies);
      if (error != std::errc() || stop != end || copies == 0) {
        return Bad("at_most is \"" + value + "\", not a number of copies");
      }
      settings.policy.at_most_copies = copies;
    }
  }
  return settings;
}

}  // namespace onecopy::nixl
