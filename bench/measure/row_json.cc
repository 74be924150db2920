#include "bench/measure/row_json.h"

#include <nlohmann/json.hpp>

#include "bench/measure/statistics.h"

namespace onecopy::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename T>
OrderedJson OrNull(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson ToJson(const Row& row, const RunFacts& run) {
  const bool measured = !row.values.empty();
  const bool rate = row.unit == Unit::kBytesPerSecond;
  const bool held = measured && !row.ceiling_values.empty();
  const Summary values = Summarise(row.values);
  const Summary ceiling = Summarise(row.ceiling_values);
  OrderedJson json;
  json["work"] = row.work;
  json["path"] = TextOrNull(row.path);
  json["bytes"] = row.bytes;
  json["unit"] = UnitName(row.unit);
  json["median_bytes_per_second"] = measured && rate ? OrderedJson(values.median) : OrderedJson();
  json["median"] = measured ? OrderedJson(values.median) : OrderedJson();
  json["min"] = measured ? OrderedJson(values.min) : OrderedJson();
  json["max"] = measured ? OrderedJson(values.max) : OrderedJson();
  json["samples"] = row.values.size();
  json["ceiling"] = TextOrNull(row.ceiling);
  json["ceiling_bytes_per_second"] = held && rate ? OrderedJson(ceiling.median) : OrderedJson();
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
  OrderedJson list = OrderedJson::array();
  for (const Row& row : rows) list.push_back(ToJson(row, run));
  // What is not UTF-8 (in an error's text) is replaced rather than thrown about.
  return list.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace onecopy::bench
