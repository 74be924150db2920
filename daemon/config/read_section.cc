#include "daemon/config/read_section.h"

#include <algorithm>
#include <optional>

#include "daemon/config/problems.h"
#include "daemon/config/value_text.h"
#include "onecopy/size.h"
#include "transport/core/base/duration.h"
#include "transport/core/base/nearest.h"

namespace onecopy::config {
namespace {

// What is wrong with a value; its place is added by the caller.
using Complaint = std::string;

Complaint WrongType(const SettingSpec& spec, const toml::node& node) {
  return "must be " + TypeText(spec.type) + ", not " + KindText(node);
}

Complaint OutOfBounds(const SettingSpec& spec, const std::string& value) {
  return "must be " + BoundsText(spec) + ", not " + value;
}

Complaint ReadNumber(const SettingSpec& spec, int64_t number, SettingValue& value) {
  if (number < spec.least || number > spec.most) {
    return OutOfBounds(spec, ValueText(spec.type, number));
  }
  value = number;
  return {};
}

Complaint ReadBytes(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  if (const auto number = node.value_exact<int64_t>()) {
    if (*number < 0) return OutOfBounds(spec, std::to_string(*number));
    return ReadNumber(spec, *number, value);
  }
  const auto text = node.value_exact<std::string>();
  if (!text) return WrongType(spec, node);
  const Result<uint64_t> bytes = ParseBytes(*text);
  if (!bytes.ok()) return bytes.status().message();
  if (*bytes > static_cast<uint64_t>(INT64_MAX)) return OutOfBounds(spec, "\"" + *text + "\"");
  return ReadNumber(spec, static_cast<int64_t>(*bytes), value);
}

Complaint ReadDuration(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  const auto text = node.value_exact<std::string>();
  if (!text) return WrongType(spec, node);
  const Result<std::chrono::milliseconds> duration = ParseDuration(*text);
  if (!duration.ok()) return duration.status().message() + "; " + duration.status().remedy();
  return ReadNumber(spec, duration->count(), value);
}

Complaint ReadTextList(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return WrongType(spec, node);
  std::vector<std::string> list;
  for (const toml::node& element : *array) {
    const auto text = element.value_exact<std::string>();
    if (!text) return "must hold texts in quotes only, not " + KindText(element);
    list.push_back(*text);
  }
  value = std::move(list);
  return {};
}

template <typename T>
Complaint ReadPlain(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  auto plain = node.value_exact<T>();
  if (!plain) return WrongType(spec, node);
  value = std::move(*plain);
  return {};
}

Complaint ReadText(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  if (Complaint complaint = ReadPlain<std::string>(spec, node, value); !complaint.empty()) {
    return complaint;
  }
  const std::string& text = std::get<std::string>(value);
  const std::vector<std::string>& choices = spec.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) {
    return {};
  }
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  return "must be one of " + list + ", not " + text + DidYouMean(text, choices);
}

Complaint ReadValue(const SettingSpec& spec, const toml::node& node, SettingValue& value) {
  switch (spec.type) {
    case SettingType::kBool:
      return ReadPlain<bool>(spec, node, value);
    case SettingType::kText:
      return ReadText(spec, node, value);
    case SettingType::kInteger: {
      const auto number = node.value_exact<int64_t>();
      return number ? ReadNumber(spec, *number, value) : WrongType(spec, node);
    }
    case SettingType::kBytes:
      return ReadBytes(spec, node, value);
    case SettingType::kDuration:
      return ReadDuration(spec, node, value);
    case SettingType::kTextList:
      return ReadTextList(spec, node, value);
  }
  return {};
}

}  // namespace

std::string KeyText(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(typed, known);
  return nearest.empty() ? "" : " (did you mean " + nearest + "?)";
}

std::string KindText(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a section";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

Section ReadSection(const toml::table* table, const std::string& name,
                    const std::vector<SettingSpec>& specs,
                    const std::vector<std::string>& elsewhere, Problems& problems) {
  Section section{.settings = Settings(specs), .lines = {}, .wrong = {}};
  if (table == nullptr) return section;
  std::vector<std::string> known = elsewhere;
  for (const SettingSpec& spec : specs) known.push_back(spec.key);
  for (const auto& [toml_key, node] : *table) {
    const std::string key(toml_key.str());
    if (std::find(elsewhere.begin(), elsewhere.end(), key) != elsewhere.end()) continue;
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&key](const SettingSpec& one) { return one.key == key; });
    const std::string what = KeyText(name, key);
    if (spec == specs.end()) {
      problems.Add(LineOf(toml_key), "there is no " +
                                         std::string(node.is_table() ? "section " : "key ") + what +
                                         DidYouMean(key, known));
      continue;
    }
    section.lines[key] = LineOf(toml_key);
    SettingValue value;
    if (Complaint complaint = ReadValue(*spec, node, value); !complaint.empty()) {
      problems.Add(LineOf(toml_key), what + ": " + complaint);
      section.wrong.insert(key);
    } else {
      section.settings.Set(key, std::move(value));
    }
  }
  return section;
}

}  // namespace onecopy::config
