#include "daemon/status/document.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/status/findings.h"

namespace onecopy::status {
namespace {

using Json = nlohmann::ordered_json;
using engine::Figures;
using engine::TransferFigures;

constexpr size_t kMaxText = 300;
constexpr size_t kMaxFindings = 256;
constexpr size_t kMaxTraffic = 512;

std::string Text(std::string_view text) { return std::string(text.substr(0, kMaxText)); }

double UnixSeconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Json JsonOf(const Refusal& refusal) {
  return {{"path", Text(refusal.path)},
          {"reason", Text(refusal.reason)},
          {"detail", Text(refusal.detail)},
          {"remedy", Text(refusal.remedy)}};
}

Json WaysJson(const engine::NodeWays& node) {
  Json ways = Json::array();
  for (const engine::WayFigures& way : node.ways) {
    Json better = Json::array();
    for (const Refusal& refusal : way.better) better.push_back(JsonOf(refusal));
    ways.push_back({{"from", Text(way.from)},
                    {"to", Text(way.to)},
                    {"path", Text(way.path)},
                    {"link", Text(way.link)},
                    {"copies", way.copies},
                    {"bytes_per_second", way.bytes_per_second},
                    {"basis", Text(way.basis)},
                    {"probed_bytes_per_second", way.probed_bytes_per_second},
                    {"better", std::move(better)}});
  }
  return ways;
}

// This node, then the peers by name.
Json NodesJson(const Figures& figures) {
  std::map<std::string, const engine::NodeWays*> ways;
  for (const engine::NodeWays& node : figures.status->ways) ways.emplace(node.node, &node);
  const auto add_ways = [&](const std::string& name, Json& node) {
    const auto found = ways.find(name);
    node["ways"] = found == ways.end() ? Json::array() : WaysJson(*found->second);
  };
  Json nodes = Json::array();
  Json self = {{"name", Text(figures.node)}, {"self", true}};
  self["state"] = NodeStateName(figures.draining ? NodeState::kDraining : NodeState::kConnected);
  self["slow_transfers"] = figures.slow_transfers_inside;
  add_ways(figures.node, self);
  nodes.push_back(std::move(self));
  for (const engine::PeerFigures& peer : figures.peers.peers) {
    if (nodes.size() == engine::kMaxNodesShown) break;
    Json node = {{"name", Text(peer.name)},
                 {"self", false},
                 {"state", NodeStateName(peer.state)},
                 {"reason", Text(peer.reason)},
                 {"detail", Text(peer.detail)},
                 {"slow_transfers", peer.slow_transfers}};
    add_ways(peer.name, node);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// What runs first, then what has moved most.
Json TrafficJson(const Figures& figures) {
  struct Row {
    const TransferFigures::BytesKey* key = nullptr;
    TransferFigures::Amount amount;
  };
  std::map<TransferFigures::BytesKey, TransferFigures::Amount> all = figures.status->running;
  for (const auto& [key, bytes] : figures.transfers.bytes) all[key].bytes += bytes;
  std::vector<Row> rows;
  rows.reserve(all.size());
  for (const auto& [key, amount] : all) rows.push_back({&key, amount});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.amount.transfers, a.amount.bytes) >
           std::pair(b.amount.transfers, b.amount.bytes);
  });
  if (rows.size() > kMaxTraffic) rows.resize(kMaxTraffic);
  Json traffic = Json::array();
  for (const Row& row : rows) {
    traffic.push_back({{"path", Text(row.key->path)},
                       {"link", Text(row.key->link)},
                       {"peer", Text(row.key->peer)},
                       {"direction", engine::DirectionName(row.key->direction)},
                       {"running", row.amount.transfers},
                       {"bytes", row.amount.bytes}});
  }
  return traffic;
}

Json RefusalsJson(const Figures& figures) {
  Json refusals = Json::array();
  const auto add = [&](std::string_view of, std::string_view name, std::string_view reason,
                       uint64_t count) {
    if (count == 0) return;
    refusals.push_back(
        {{"of", of}, {"name", Text(name)}, {"reason", Text(reason)}, {"count", count}});
  };
  for (const auto& [key, count] : figures.transfers.refusals) {
    add("path", key.path, key.reason, count);
  }
  for (const auto& [reason, count] : figures.transfers.requests_refused) {
    add("request", {}, reason, count);
  }
  for (const engine::QuotaFigures& quota : figures.quotas) {
    add("limit", quota.what, "QUOTA", quota.refused);
  }
  return refusals;
}

Json FindingsJson(const Seen& seen) {
  Json findings = Json::array();
  for (const Finding& finding : FindingsOf(seen)) {
    if (findings.size() == kMaxFindings) break;
    findings.push_back({{"code", Text(finding.code)},
                        {"severity", SeverityName(finding.severity)},
                        {"evidence", Text(finding.evidence)},
                        {"remedy", Text(finding.remedy)}});
  }
  return findings;
}

Json DevicesJson(const engine::StatusFigures& status) {
  Json devices = Json::array();
  for (const engine::DeviceFigures& device : status.devices) {
    devices.push_back({{"kind", device.kind},
                       {"name", Text(device.name)},
                       {"link", Text(device.link)},
                       {"bytes_per_second", device.bytes_per_second},
                       {"emulated", device.emulated},
                       {"viable", device.viability.viable},
                       {"reason", Text(device.viability.reason)},
                       {"detail", Text(device.viability.detail)}});
  }
  return devices;
}

}  // namespace

std::string DocumentOf(const Seen& seen) {
  Json document = {{"time", UnixSeconds(seen.now)}, {"engine_answered", seen.figures != nullptr}};
  if (seen.figures != nullptr && seen.figures->status) {
    const Figures& figures = *seen.figures;
    const size_t known = figures.peers.peers.size() + 1;
    document["node"] = Text(figures.node);
    document["version"] = Text(figures.version);
    document["start_time"] = UnixSeconds(figures.start_time);
    document["draining"] = figures.draining;
    document["running"] = figures.running;
    document["nodes"] = NodesJson(figures);
    document["nodes_left_out"] = known - std::min(known, engine::kMaxNodesShown);
    document["traffic"] = TrafficJson(figures);
    document["refusals"] = RefusalsJson(figures);
    document["devices"] = DevicesJson(*figures.status);
  }
  document["findings"] = FindingsJson(seen);
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace onecopy::status
