#include "bench/measure/row_json.h"

#include <nlohmann/json.hpp>

#include "bench/measure/statistics.h"

namespace onecopy::bench {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json ToJson(const Row& row, const RunFacts& run) {
  const bool measured = !row.values.empty();
  const bool rate = row.unit == Unit::kBytesPerSecond;
  const bool held = measured && !row.ceiling_values.empty();
  const Summary values = Summarise(row.values);
  const Summary ceiling = Summarise(row.ceiling_values);
  Json json;
  json["work"] = row.work;
  json["path"] = TextOrNull(row.path);
  json["bytes"] = row.bytes;
  json["unit"] = UnitName(row.unit);
  json["median_bytes_per_second"] = measured && rate ? Json(values.median) : Json();
  json["median"] = measured ? Json(values.median) : Json();
  json["min"] = measured ? Json(values.min) : Json();
  json["max"] = measured ? Json(values.max) : Json();
  json["samples"] = row.values.size();
  json["ceiling"] = TextOrNull(row.ceiling);
  json["ceiling_bytes_per_second"] = held && rate ? Json(ceiling.median) : Json();
  json["ratio"] = OrNull(row.ratio());
  json["floor"] = OrNull(row.floor);
  json["roof"] = OrNull(row.roof);
  json["target"] = OrNull(row.target);
  json["limit"] = OrNull(row.limit);
  json["verified"] = OrNull(row.verified);
  json["status"] = RowStatusName(row.status);
  json["reason"] = TextOrNull(row.reason);
  json["detail"] = TextOrNull(row.detail);
  json["values"] = row.values;
  json["ceiling_values"] = row.ceiling_values;
  json["details"] = row.details;
  json["machine"] = TextOrNull(run.machine);
  json["time"] = TextOrNull(run.time);
  json["version"] = TextOrNull(run.version);
  return json;
}

}  // namespace

std::string ToJson(const std::vector<Row>& rows, const RunFacts& run) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(ToJson(row, run));
  // What is not UTF-8 (in an error's text) is replaced rather than thrown about.
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace onecopy::bench
