#include "daemon/config/value_text.h"

#include <array>
#include <cstdio>

#include "transport/core/base/duration.h"

namespace onecopy::config {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// In the largest binary unit that loses nothing.
std::string Bytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

std::string Number(SettingType type, int64_t value) {
  if (type == SettingType::kBytes) return Bytes(value);
  if (type == SettingType::kDuration) return FormatDuration(std::chrono::milliseconds(value));
  return std::to_string(value);
}

}  // namespace

std::string ValueText(SettingType type, const SettingValue& value) {
  switch (type) {
    case SettingType::kBool:
      return std::get<bool>(value) ? "true" : "false";
    case SettingType::kInteger:
      return Number(type, std::get<int64_t>(value));
    case SettingType::kText:
      return Quoted(std::get<std::string>(value));
    case SettingType::kTextList: {
      std::string list;
      for (const std::string& text : std::get<std::vector<std::string>>(value)) {
        list += (list.empty() ? "" : ", ") + Quoted(text);
      }
      return "[" + list + "]";
    }
    case SettingType::kBytes:
    case SettingType::kDuration:
      return Quoted(Number(type, std::get<int64_t>(value)));
  }
  return {};
}

std::string TypeText(SettingType type) {
  switch (type) {
    case SettingType::kBool:
      return "true or false";
    case SettingType::kInteger:
      return "a whole number";
    case SettingType::kText:
      return "text in quotes";
    case SettingType::kTextList:
      return "a list of texts, such as [\"a\", \"b\"]";
    case SettingType::kBytes:
      return "a size, such as \"64KiB\"";
    case SettingType::kDuration:
      return "a duration, such as \"30s\"";
  }
  return {};
}

std::string BoundsText(const SettingSpec& spec) {
  const bool numeric = spec.type == SettingType::kInteger || spec.type == SettingType::kBytes ||
                       spec.type == SettingType::kDuration;
  if (!numeric) return {};
  if (spec.most != INT64_MAX) {
    return "between " + Number(spec.type, spec.least) + " and " + Number(spec.type, spec.most);
  }
  return "at least " + Number(spec.type, spec.least);
}

}  // namespace onecopy::config
