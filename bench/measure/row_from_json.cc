#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/measure/row_json.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

using Json = nlohmann::json;

Status Bad(std::string what) {
  return {Code::kInvalidArgument, reasons::kBadArgument, std::move(what),
          "give a file that onecopy-bench run --json wrote"};
}

// One row's object, of which keys are taken; the first that is not as it should be is remembered.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) {}

  std::string Text(const char* key, bool may_be_null = true) {
    const Json* const value = Find(key);
    if (value == nullptr || (value->is_null() && may_be_null)) return {};
    if (!value->is_string()) Wrong(key, "text");
    return value->is_string() ? value->get<std::string>() : "";
  }
  // Of runs that said nothing about it.
  std::string TextIfThere(const char* key) { return object_.contains(key) ? Text(key) : ""; }

  std::optional<double> Number(const char* key) {
    const Json* const value = Find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    if (!value->is_number()) Wrong(key, "a number");
    return value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
  }
  std::optional<double> NumberIfThere(const char* key) {
    return object_.contains(key) ? Number(key) : std::nullopt;
  }

  uint64_t Count(const char* key) {
    const Json* const value = Find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned()) Wrong(key, "a number of bytes");
    return value->is_number_unsigned() ? value->get<uint64_t>() : 0;
  }

  std::optional<bool> Truth(const char* key) {
    const Json* const value = Find(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    if (!value->is_boolean()) Wrong(key, "true or false");
    return value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
  }

  std::vector<double> Numbers(const char* key) {
    const Json* const value = Find(key);
    if (value == nullptr) return {};
    const bool right =
        value->is_array() &&
        std::all_of(value->begin(), value->end(), [](const Json& one) { return one.is_number(); });
    if (!right) Wrong(key, "a list of numbers");
    return right ? value->get<std::vector<double>>() : std::vector<double>();
  }

  std::map<std::string, double> Figures(const char* key) {
    const Json* const value = Find(key);
    if (value == nullptr) return {};
    const bool right =
        value->is_object() &&
        std::all_of(value->begin(), value->end(), [](const Json& one) { return one.is_number(); });
    if (!right) Wrong(key, "an object of numbers");
    return right ? value->get<std::map<std::string, double>>() : std::map<std::string, double>();
  }

  void Wrong(const std::string& key, const std::string& wanted) {
    if (problem_.empty()) problem_ = "\"" + key + "\" is not " + wanted;
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json* Find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (problem_.empty()) problem_ = std::string("there is no \"") + key + "\"";
    return nullptr;
  }

  const Json& object_;
  std::string problem_;
};

template <typename Value, size_t kCount>
Value OneOf(Reader& reader, const char* key, const std::array<Value, kCount>& values,
            std::string_view (*name)(Value)) {
  const std::string text = reader.Text(key, false);
  for (const Value value : values) {
    if (name(value) == text) return value;
  }
  reader.Wrong(key, "one that is known");
  return values.front();
}

RecordedRow Read(Reader& reader) {
  using enum RowStatus;
  using enum Unit;
  constexpr std::array kUnits = {kBytesPerSecond,     kBytes,        kCores,    kSeconds,
                                 kSecondsPerGigabyte, kBytesPerByte, kPerSecond};
  RecordedRow recorded;
  Row& row = recorded.row;
  row.work = reader.Text("work", false);
  row.path = reader.Text("path");
  row.bytes = reader.Count("bytes");
  row.unit = OneOf(reader, "unit", kUnits, UnitName);
  row.values = reader.Numbers("values");
  row.ceiling = reader.Text("ceiling");
  row.ceiling_values = reader.Numbers("ceiling_values");
  row.floor = reader.Number("floor");
  row.roof = reader.NumberIfThere("roof");
  row.target = reader.NumberIfThere("target");
  row.limit = reader.Number("limit");
  row.verified = reader.Truth("verified");
  row.status = OneOf(reader, "status", std::array{kOk, kWaived, kFailed}, RowStatusName);
  row.reason = reader.Text("reason");
  row.detail = reader.Text("detail");
  row.details = reader.Figures("details");
  recorded.run = {reader.TextIfThere("machine"), reader.TextIfThere("time"),
                  reader.TextIfThere("version")};
  if (!row.ceiling.empty() && row.values.size() != row.ceiling_values.size()) {
    reader.Wrong("ceiling_values", "as long as \"values\"");
  }
  return recorded;
}

}  // namespace

Result<std::vector<RecordedRow>> FromJson(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Bad("it is empty");
  Json list;
  try {
    list = Json::parse(text);
  } catch (const Json::exception& error) {
    return Bad(std::string("it is not a JSON document: ") + error.what());
  }
  if (!list.is_array()) return Bad("it is not a list of rows");
  std::vector<RecordedRow> rows;
  for (const Json& one : list) {
    const std::string where = "row " + std::to_string(rows.size() + 1);
    if (!one.is_object()) return Bad(where + " is not an object");
    Reader reader(one);
    RecordedRow row = Read(reader);
    if (!reader.problem().empty()) return Bad(where + ": " + reader.problem());
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return Bad("it contains no rows");
  return rows;
}

}  // namespace onecopy::bench
