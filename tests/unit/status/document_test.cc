// What the status page is told: all that it shows, nothing that only a login may see, and texts of
// peers as texts.
#include "daemon/status/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::engine;
using Json = nlohmann::json;

namespace {

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

Figures OfEast() {
  Figures figures;
  figures.node = "east";
  figures.version = "1.2.3";
  figures.start_time = kNow - std::chrono::seconds(60);
  figures.status.emplace();
  return figures;
}

std::string TextOf(const Figures& figures) {
  return status::DocumentOf({.figures = &figures, .now = kNow});
}

Json DocumentOf(const Figures& figures) { return Json::parse(TextOf(figures)); }

WayFigures Way(const std::string& path, size_t copies) {
  return {.from = "cuda:0",
          .to = "host",
          .path = path,
          .link = "tcp",
          .copies = copies,
          .bytes_per_second = 2e9,
          .basis = "estimated",
          .probed_bytes_per_second = 1.5e9,
          .better = {{"rdma-direct", "NO_RDMA_DEVICE", "west has none", "add one"}}};
}

}  // namespace

TEST_CASE("nodes have their paths, this one first") {
  Figures figures = OfEast();
  figures.peers.peers = {{.name = "north",
                          .connected = false,
                          .state = NodeState::kDisconnected,
                          .reason = "PEER_DOWN",
                          .detail = "connection refused"},
                         {.name = "west", .connected = true, .state = NodeState::kConnected}};
  figures.status->ways = {{"east", {Way("local", 1)}}, {"west", {Way("tcp-staged", 5)}}};
  const Json document = DocumentOf(figures);
  CHECK(document.at("engine_answered") == true);
  CHECK(document.at("time") == 1.8e9);
  const Json& nodes = document.at("nodes");
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].at("name") == "east");
  CHECK(nodes[0].at("self") == true);
  CHECK(nodes[0].at("ways")[0].at("path") == "local");
  CHECK(nodes[1].at("state") == "DISCONNECTED");
  CHECK(nodes[1].at("detail") == "connection refused");
  CHECK(nodes[1].at("ways").empty());
  const Json& way = nodes[2].at("ways")[0];
  CHECK(way.at("copies") == 5);
  CHECK(way.at("probed_bytes_per_second") == 1.5e9);
  CHECK(way.at("better")[0].at("reason") == "NO_RDMA_DEVICE");
  CHECK(document.at("nodes_left_out") == 0);
}

TEST_CASE("what runs and what has ended are one row for a path and peer") {
  Figures figures = OfEast();
  const TransferFigures::BytesKey in{"tcp-direct", "tcp", "west", Direction::kIn};
  const TransferFigures::BytesKey inside{"local", "", "", Direction::kInside};
  figures.transfers.bytes = {{in, 1000}, {inside, 5000}};
  figures.status->running = {{in, {2, 30}}};
  const Json traffic = DocumentOf(figures).at("traffic");
  REQUIRE(traffic.size() == 2);
  CHECK(traffic[0] == Json{{"path", "tcp-direct"},
                           {"link", "tcp"},
                           {"peer", "west"},
                           {"direction", "in"},
                           {"running", 2},
                           {"bytes", 1030}});
  CHECK(traffic[1].at("bytes") == 5000);
  CHECK(traffic[1].at("running") == 0);
}

TEST_CASE("refusals of paths, requests and limits are told by reason") {
  Figures figures = OfEast();
  figures.transfers.refusals[{"rdma-direct", "NO_RDMA_DEVICE"}] = 12;
  figures.transfers.requests_refused["BUFFER_NOT_FOUND"] = 3;
  figures.quotas = {{"buffers", 1, 100, 7}, {"rings", 1, 100, 0}};
  const Json refusals = DocumentOf(figures).at("refusals");
  REQUIRE(refusals.size() == 3);
  CHECK(refusals[0] ==
        Json{{"of", "path"}, {"name", "rdma-direct"}, {"reason", "NO_RDMA_DEVICE"}, {"count", 12}});
  CHECK(refusals[1].at("count") == 3);
  CHECK(refusals[2].at("name") == "buffers");
}

TEST_CASE("without the engine's answer the document says that, and has no old figures") {
  const Json document = Json::parse(status::DocumentOf({.log_records_dropped = 4, .now = kNow}));
  CHECK(document.at("engine_answered") == false);
  CHECK_FALSE(document.contains("nodes"));
  CHECK(document.at("findings")[0].at("code") == "ENGINE_SILENT");
  CHECK(document.at("findings")[1].at("code") == "LOG_RECORDS_DROPPED");
}

TEST_CASE("whatever a peer says of itself is a short text of valid JSON") {
  const std::vector<std::string> hostile = {"</script><script>alert(1)</script>",
                                            "\"},\"node\":\"evil\",\"x\":{\"",
                                            "\\\" \\u0022 \n\r\t\x01",
                                            std::string("a\0b", 3),
                                            "\xff\xfe\xc3(",
                                            "\xe2\x80\xa8\xe2\x80\xa9",
                                            std::string(1 << 20, 'x')};
  for (const std::string& text : hostile) {
    Figures figures = OfEast();
    figures.peers.peers = {
        {.name = text, .state = NodeState::kIncompatible, .reason = text, .detail = text}};
    WayFigures way = Way(text, 3);
    way.from = way.to = way.link = way.basis = text;
    way.better = {{text, text, text, text}};
    figures.status->ways = {{text, {way}}};
    figures.status->running[{text, text, text, Direction::kOut}] = {1, 1};
    figures.status->devices = {
        {.kind = "nic", .name = text, .link = text, .viability = Viability::No(text, text, text)}};
    figures.transfers.refusals[{text, text}] = 1;
    figures.transfers.requests_refused[text] = 1;
    const std::string document = TextOf(figures);
    CHECK(document.size() < 20'000);
    CHECK(std::all_of(document.begin(), document.end(),
                      [](unsigned char c) { return c >= 0x20 && c < 0x7f; }));
    const Json parsed = Json::parse(document);
    CHECK(parsed.at("node") == "east");
    CHECK(parsed.at("nodes").size() == 2);
    if (text.size() < 100 && text[0] == '<') CHECK(parsed.at("nodes")[1].at("name") == text);
  }
}

TEST_CASE("64 nodes are shown, more are counted, and the document is bounded") {
  Figures figures = OfEast();
  const std::string longest(1000, 'x');
  const auto add = [&](size_t i) {
    const std::string name = "node-" + std::to_string(1000 + i);
    figures.peers.peers.push_back(
        {.name = name, .connected = true, .state = NodeState::kConnected, .detail = longest});
    if (figures.status->ways.size() == kMaxNodesShown) return;
    NodeWays& ways = figures.status->ways.emplace_back(NodeWays{name, {}});
    for (int pair = 0; pair < 4; ++pair) {
      WayFigures& way = ways.ways.emplace_back(Way("tcp-staged", 5));
      way.better.assign(kMaxBetterShown, {longest, longest, longest, longest});
    }
  };
  for (size_t i = 0; i < 63; ++i) add(i);
  CHECK(DocumentOf(figures).at("nodes").size() == 64);
  CHECK(DocumentOf(figures).at("nodes_left_out") == 0);
  for (size_t i = 63; i < kMaxPeersTold; ++i) add(i);
  for (size_t i = 0; i < kMaxBytesTold; ++i) {
    figures.transfers.bytes[{longest, "tcp", longest + std::to_string(i), Direction::kIn}] = i;
  }
  for (size_t i = 0; i < kMaxRefusalsTold; ++i) {
    figures.transfers.refusals[{longest, longest + std::to_string(i)}] = 1;
  }
  figures.status->devices.assign(
      kMaxDevicesShown,
      {.kind = "nic", .name = longest, .viability = Viability::No("IO_ERROR", longest, longest)});
  const Json document = DocumentOf(figures);
  CHECK(document.at("nodes").size() == 64);
  CHECK(document.at("nodes_left_out") == 257 - 64);
  CHECK(document.dump().size() < 4'000'000);
}
