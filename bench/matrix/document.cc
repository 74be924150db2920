#include "bench/matrix/document.h"

#include <nlohmann/json.hpp>

#include "transport/shim/cuda.h"

namespace onecopy::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

void Put(OrderedJson& pair, const char* key, const Figure& figure) {
  pair[key] = figure.ok() ? OrderedJson(*figure) : OrderedJson();
}

void PutWhy(OrderedJson& missing, const char* key, const Figure& figure) {
  if (figure.ok()) return;
  missing[key] = {{"reason", figure.status().reason()}, {"detail", figure.status().message()}};
}

OrderedJson ToJson(const Matrix& matrix, const PairFigures& figures) {
  const std::pair<const char*, const Figure&> keys[] = {
      {"p2p_on_one_way_bytes_per_second", figures.p2p_on.one_way_bytes_per_second},
      {"p2p_on_both_ways_bytes_per_second", figures.p2p_on.both_ways_bytes_per_second},
      {"p2p_on_latency_seconds", figures.p2p_on.latency_seconds},
      {"p2p_off_one_way_bytes_per_second", figures.p2p_off.one_way_bytes_per_second},
      {"p2p_off_both_ways_bytes_per_second", figures.p2p_off.both_ways_bytes_per_second},
      {"p2p_off_latency_seconds", figures.p2p_off.latency_seconds},
      {"through_host_bytes_per_second", figures.through_host_bytes_per_second},
      {"onecopy_bytes_per_second", figures.onecopy_bytes_per_second},
      {"onecopy_latency_seconds", figures.onecopy_latency_seconds},
  };
  OrderedJson pair;
  OrderedJson missing = OrderedJson::object();
  pair["from"] = figures.from;
  pair["to"] = figures.to;
  pair["from_uuid"] = matrix.gpus[figures.from].uuid;
  pair["to_uuid"] = matrix.gpus[figures.to].uuid;
  for (const auto& [key, figure] : keys) {
    Put(pair, key, figure);
    PutWhy(missing, key, figure);
  }
  pair["onecopy_path"] = TextOrNull(figures.onecopy_path);
  pair["missing"] = std::move(missing);
  return pair;
}

}  // namespace

std::string MatrixDocument(const Matrix& matrix, const RunFacts& run) {
  OrderedJson json;
  json["version"] = TextOrNull(run.version);
  json["machine"] = TextOrNull(run.machine);
  json["time"] = TextOrNull(run.time);
  json["driver_version"] = TextOrNull(matrix.driver_version);
  json["cuda_version"] = shim::CudaVersionText(matrix.cuda_version);
  json["bytes"] = matrix.bytes;
  json["samples"] = matrix.samples;
  json["copies_per_sample"] = kCopiesPerSample;
  json["latency_copy_bytes"] = kLatencyCopyBytes;
  json["latency_transfer_bytes"] = kLatencyTransferBytes;
  json["timed_by"] = "events";
  json["gpus"] = OrderedJson::array();
  for (const MatrixGpu& gpu : matrix.gpus) {
    json["gpus"].push_back(
        {{"name", gpu.name}, {"uuid", gpu.uuid}, {"memory_bytes", gpu.memory_bytes}});
  }
  json["pairs"] = OrderedJson::array();
  for (const PairFigures& figures : matrix.pairs) json["pairs"].push_back(ToJson(matrix, figures));
  // What is not UTF-8 (in an error's text) is replaced rather than thrown about.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace onecopy::bench
