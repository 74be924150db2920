// The status page of real daemons, and in a real browser by what it shows.
#include <algorithm>
#include <iostream>

#include "daemon/metrics/server.h"
#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/browser.h"
#include "tests/support/catch.h"
#include "tests/support/scrape.h"

namespace status_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;
using engine::Figures;

constexpr const char* kNoBrowser =
    "there is no Chromium: apt-get install chromium-headless-shell (deploy/bootstrap --for "
    "browser)";

// Two daemons with a status page each.
struct Watched {
  Node west{"west", {.metrics = "127.0.0.1:0"}};
  Node east{"east", {.peers = {west.AsPeer()}, .metrics = "127.0.0.1:0"}};

  Watched() {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }
};

Json StatusOf(const std::string& address) {
  const std::string answer = Ask(address, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || head == std::string::npos) {
    throw std::runtime_error(answer);
  }
  return Json::parse(answer.substr(head + 4));
}

// Until the daemon has made a new document, and it says so.
Json WaitForStatus(const std::string& address, const std::function<bool(const Json&)>& so) {
  Json status;
  WaitUntil("the status says so", [&] {
    status = StatusOf(address);
    return so(status);
  });
  return status;
}

const Json* NodeIn(const Json& status, const std::string& name) {
  for (const Json& node : status.at("nodes")) {
    if (node.at("name") == name) return &node;
  }
  return nullptr;
}

const Json* TrafficIn(const Json& status, const std::string& peer, const std::string& direction) {
  for (const Json& row : status.at("traffic")) {
    if (row.at("peer") == peer && row.at("direction") == direction) return &row;
  }
  return nullptr;
}

bool HasFinding(const Json& status, const std::string& code) {
  const Json& findings = status.at("findings");
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Json& finding) { return finding.at("code") == code; });
}

// A server of a page without a daemon: of figures that a test makes.
std::unique_ptr<metrics::Server> Serve(std::function<Figures()> figures) {
  const auto ask = [figures = std::move(figures)](auto reply) { reply(figures()); };
  auto server = metrics::Server::Start(
      {.listen = {"127.0.0.1", 0}, .trust = nullptr, .ask = ask, .ask_status = ask});
  if (!server.ok()) throw std::runtime_error(server.status().ToString());
  return *std::move(server);
}

engine::WayFigures Way(const std::string& from, const std::string& to, const std::string& path,
                       size_t copies) {
  engine::WayFigures way{.from = from,
                         .to = to,
                         .path = path,
                         .link = "tcp",
                         .copies = copies,
                         .bytes_per_second = 2e9,
                         .basis = "estimated"};
  if (copies > 1) way.better = {{"rdma-direct", "NO_RDMA_DEVICE", "no device here", "add one"}};
  return way;
}

Figures OfNodes(size_t nodes) {
  Figures figures;
  figures.node = "node-000";
  figures.status.emplace();
  figures.status->ways.push_back({figures.node, {Way("host", "host", "local", 1)}});
  for (size_t i = 1; i < nodes; ++i) {
    const std::string number = std::to_string(i);
    const std::string name = "node-" + std::string(3 - number.size(), '0') + number;
    figures.peers.peers.push_back(
        {.name = name, .connected = true, .state = NodeState::kConnected});
    figures.status->ways.push_back(
        {name,
         {Way("host", "host", "tcp-direct", 3), Way("host", "cuda:0", "tcp-bounce", 4),
          Way("cuda:0", "host", "tcp-bounce", 4), Way("cuda:0", "cuda:1", "tcp-staged", 5)}});
  }
  return figures;
}

std::string Url(const std::string& address) { return "http://" + address + "/"; }

// The text of the cell in that row and column of the matrix, the names left out.
std::string Cell(int row, int column) {
  return "document.querySelector('#ways').tBodies[0].rows[" + std::to_string(row) + "].cells[" +
         std::to_string(column + 1) + "]";
}

}  // namespace

TEST_CASE("a daemon's status has its paths, what moved and what was refused, and no names") {
  Watched with;
  Client client = with.east.Connect(false);
  constexpr uint64_t kBytes = 1 << 20;
  const HostBuffer from = Filled(client, "secret-from", kBytes, 1);
  HostBuffer to = Must(client.CreateHostBuffer("secret-to", kBytes));
  Must(client.CreateBuffer(
      {.name = "secret-far", .bytes = kBytes, .memory = "host", .node = "west"}));
  const TransferInfo out = Must(client.RunTransfer(
      {.source = {"east", "secret-from"}, .destination = {"west", "secret-far"}}));
  REQUIRE(out.state == TransferState::kSucceeded);
  const TransferInfo in = Must(
      client.RunTransfer({.source = {"west", "secret-far"}, .destination = {"east", "secret-to"}}));
  REQUIRE(in.state == TransferState::kSucceeded);
  CHECK_FALSE(
      client.RunTransfer({.source = {"west", "none"}, .destination = {"east", "secret-to"}}).ok());

  const Json east = WaitForStatus(with.east.metrics(), [](const Json& status) {
    const Json& refusals = status.at("refusals");
    return std::any_of(refusals.begin(), refusals.end(), [](const Json& one) {
      return one.at("of") == "request" && one.at("reason") == "BUFFER_NOT_FOUND";
    });
  });
  CHECK(east.at("node") == "east");
  const Json* const west = NodeIn(east, "west");
  REQUIRE(west != nullptr);
  CHECK(west->at("state") == "CONNECTED");
  const Json& ways = west->at("ways");
  REQUIRE(ways.size() == 1);
  // The transfer that came from there took that way.
  CHECK(ways[0].at("path") == in.receipt.path);
  CHECK(ways[0].at("copies") == in.receipt.copies());
  CHECK(ways[0].at("better")[0].at("path") == "rdma-direct");
  CHECK_FALSE(ways[0].at("better")[0].at("detail").get<std::string>().empty());
  CHECK(NodeIn(east, "east")->at("ways")[0].at("path") == "local");
  CHECK(TrafficIn(east, "west", "in")->at("bytes") == kBytes);
  CHECK(TrafficIn(east, "west", "out")->at("bytes") == kBytes);
  const std::string text = east.dump();
  CHECK(text.find("secret") == std::string::npos);
  CHECK(text.find(out.id.str()) == std::string::npos);
  CHECK(text.find("\"" + std::to_string(::getuid()) + "@") == std::string::npos);
}

TEST_CASE("what runs is counted by path and peer, and its bytes grow") {
  Watched with;
  Client client = with.east.Connect(false);
  constexpr uint64_t kLong = uint64_t{512} << 20;
  HostBuffer to = Must(client.CreateHostBuffer("to", kLong));
  Must(client.CreateBuffer({.name = "from", .bytes = kLong, .memory = "host", .node = "west"}));
  const TransferInfo running =
      StartAndSeeRunning(client, {.source = {"west", "from"}, .destination = {"east", "to"}});
  Frozen frozen(with.west);
  const Json status = WaitForStatus(with.east.metrics(), [](const Json& now) {
    const Json* const row = TrafficIn(now, "west", "in");
    return row != nullptr && row->at("running") == 1;
  });
  CHECK(status.at("running") == 1);
  CHECK(TrafficIn(status, "west", "in")->at("bytes") < kLong);
  frozen.Thaw();
  with.east.WaitForTransfer(running.id.str(), "SUCCEEDED");
  WaitForStatus(with.east.metrics(), [](const Json& now) {
    const Json* const row = TrafficIn(now, "west", "in");
    return row->at("running") == 0 && row->at("bytes") == kLong;
  });
}

TEST_CASE("a peer that goes, and a node that drains, are findings") {
  Watched with;
  CHECK_FALSE(HasFinding(StatusOf(with.east.metrics()), "NODE_DRAINS"));
  with.west.Kill();
  with.east.WaitForPeer("west", "DISCONNECTED");
  with.east.Do({"node", "drain"});
  const Json status = WaitForStatus(with.east.metrics(), [](const Json& now) {
    return HasFinding(now, "NODE_DRAINS") && HasFinding(now, "PEER_DOWN");
  });
  const Json* const west = NodeIn(status, "west");
  CHECK(west->at("state") == "DISCONNECTED");
  CHECK(west->at("ways").empty());
  CHECK_FALSE(west->at("detail").get<std::string>().empty());
}

TEST_CASE("in a browser the page shows what the daemon says, and complains of nothing") {
  if (Browser::Program().empty()) ONECOPY_SKIP(kNoBrowser);
  Watched with;
  Client client = with.east.Connect(false);
  constexpr uint64_t kBytes = 1 << 20;
  HostBuffer to = Must(client.CreateHostBuffer("to", kBytes));
  Must(client.CreateBuffer({.name = "from", .bytes = kBytes, .memory = "host", .node = "west"}));
  Must(client.RunTransfer({.source = {"west", "from"}, .destination = {"east", "to"}}));
  Browser browser;
  browser.Open(Url(with.east.metrics()));
  browser.WaitFor("document.querySelectorAll('#ways tbody tr').length === 2");
  CHECK(browser.Evaluate("document.title") == "east – onecopy");
  CHECK(browser.Evaluate(Cell(0, 0) + ".className") == "good");
  CHECK(browser.Evaluate(Cell(1, 0) + ".className") == "fair");
  const std::string cell = browser.Evaluate(Cell(1, 0) + ".textContent");
  CHECK(cell.find("tcp-direct") != std::string::npos);
  browser.WaitFor(
      "[...document.querySelectorAll('#traffic tbody tr')].some(row => "
      "/tcp-direct.*west.*in.*1\\.0 MB/.test(row.textContent))");
  CHECK(browser.Evaluate(
            "document.querySelector('#refusals').textContent.includes('rdma-direct')") == true);
  CHECK(browser.Evaluate("document.querySelectorAll('#devices tbody tr').length > 0") == true);
  // The reason is there under the mouse.
  browser.Hover("#ways tbody tr:nth-child(2) td");
  browser.WaitFor("!document.querySelector('#why').hidden");
  const std::string why = browser.Evaluate("document.querySelector('#why').textContent");
  CHECK(why.find("not rdma-direct: ") != std::string::npos);
  // What the daemon tells later is shown later.
  with.east.Do({"node", "drain"});
  browser.WaitFor("document.querySelector('#health').textContent.includes('drains')");
  browser.WaitFor("document.querySelector('#findings').textContent.includes('NODE_DRAINS')");
  with.east.Kill();
  browser.WaitFor("document.querySelector('#health').textContent.includes('does not answer')");
  for (const std::string& url : browser.requests()) {
    CAPTURE(url);
    CHECK((url == "about:blank" || url == Url(with.east.metrics()) || url.starts_with("data:") ||
           url == Url(with.east.metrics()) + "status.json"));
  }
  for (const std::string& complaint : browser.complaints()) {
    // The daemon was killed.
    CHECK(complaint.find("ERR_CONNECTION_REFUSED") != std::string::npos);
  }
}

TEST_CASE("in a browser 64 nodes are shown, by light and by dark, and the keyboard reaches each") {
  if (Browser::Program().empty()) ONECOPY_SKIP(kNoBrowser);
  const auto server = Serve([] { return OfNodes(64); });
  Browser browser;
  // When the last row is painted: the frame after the one that has it.
  browser.RunInNewPages(R"(
    addEventListener('DOMContentLoaded', () => new MutationObserver((_, self) => {
      if (document.querySelectorAll('#ways tbody tr').length < 64) return;
      self.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
    }).observe(document.querySelector('#ways'), { childList: true }));)");
  const std::string url = Url(server->address().ToString());
  browser.Open(url);
  browser.WaitFor("window.painted > 0");
  std::cout << "status page of 64 nodes: first paint "
            << browser.Evaluate(
                   "performance.getEntriesByName('first-contentful-paint')[0].startTime")
            << " ms, all rows painted " << browser.Evaluate("window.painted")
            << " ms after the request" << std::endl;
  CHECK(browser.Evaluate("document.querySelectorAll('#ways tbody tr').length") == 64);
  CHECK(browser.Evaluate("document.querySelectorAll('#ways thead th').length") == 5);
  CHECK(browser.Evaluate("document.querySelectorAll('#ways td.poor').length") == 63);
  CHECK(browser.Evaluate("document.querySelectorAll('#ways td.fair').length") == 3 * 63);
  CHECK(browser.Evaluate("document.querySelectorAll('#ways td.good').length") == 1);

  const std::string contrast = R"((() => {
    const channels = (text) => text.match(/[\d.]+/g).map(Number);
    const light = (text) => channels(text).slice(0, 3).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    return Math.min(...['good', 'fair', 'poor', 'none'].map((grade) => {
      const style = getComputedStyle(document.querySelector(`#ways td.${grade}`));
      const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    })); })())";
  std::string papers;
  for (const bool dark : {false, true}) {
    browser.PreferDark(dark);
    const std::string paper = browser.Evaluate("getComputedStyle(document.body).backgroundColor");
    CHECK(papers.find(paper) == std::string::npos);
    papers += paper;
    CHECK(browser.Evaluate(contrast).get<double>() >= 4.5);
  }

  // Tab reaches one cell, arrow keys the others.
  browser.Press("Tab");
  CHECK(browser.Evaluate("document.activeElement === " + Cell(0, 0)) == true);
  for (const char* key : {"ArrowDown", "ArrowRight", "ArrowDown", "ArrowLeft", "End"}) {
    browser.Press(key);
  }
  CHECK(browser.Evaluate("document.activeElement === " + Cell(2, 3)) == true);
  browser.Press("Home");
  for (int i = 0; i < 70; ++i) browser.Press("ArrowDown");
  CHECK(browser.Evaluate("document.activeElement === " + Cell(63, 0)) == true);
  CHECK(browser.Evaluate("document.querySelectorAll('#ways td[tabindex=\"0\"]').length") == 1);
  const std::string why = browser.Evaluate("document.querySelector('#why').innerText");
  CHECK(why.find("node-063") != std::string::npos);
  CHECK(browser.Evaluate("document.querySelector('#why').hidden") == false);
  browser.Press("Escape");
  CHECK(browser.Evaluate("document.querySelector('#why').hidden") == true);
  CHECK(browser.complaints().empty());
}

TEST_CASE("in a browser what a hostile peer calls itself is text") {
  if (Browser::Program().empty()) ONECOPY_SKIP(kNoBrowser);
  const std::string hostile =
      "</script><img src=x onerror=\"window.evil=1\"><b>b</b><script>window.evil=1</script>";
  const auto server = Serve([hostile] {
    Figures figures = OfNodes(2);
    figures.peers.peers.push_back(
        {.name = hostile, .state = NodeState::kIncompatible, .reason = hostile, .detail = hostile});
    figures.peers.peers.push_back(
        {.name = "west", .connected = true, .state = NodeState::kConnected});
    engine::WayFigures way = Way(hostile, hostile, hostile, 3);
    way.link = way.basis = hostile;
    way.better = {{hostile, hostile, hostile, hostile}};
    figures.status->ways.push_back({"west", {way}});
    figures.transfers.bytes[{hostile, hostile, hostile, engine::Direction::kIn}] = 5;
    figures.transfers.refusals[{hostile, hostile}] = 1;
    figures.transfers.requests_refused[hostile] = 1;
    figures.status->devices.push_back({.kind = "nic",
                                       .name = hostile,
                                       .link = hostile,
                                       .viability = Viability::No(hostile, hostile, hostile)});
    return figures;
  });
  Browser browser;
  browser.Open(Url(server->address().ToString()));
  browser.WaitFor("document.querySelectorAll('#ways tbody tr').length === 4");
  browser.Hover("#ways tbody tr:nth-child(4) td.fair");
  browser.WaitFor("!document.querySelector('#why').hidden");
  for (const char* id : {"findings", "ways", "traffic", "refusals", "devices", "why"}) {
    CAPTURE(id);
    CHECK(browser.Evaluate("document.querySelector('#" + std::string(id) +
                           "').textContent.includes('<img src=x onerror=')") == true);
    CHECK(browser.Evaluate("document.querySelectorAll('#" + std::string(id) + " img, #" + id +
                           " script').length") == 0);
  }
  CHECK(browser.Evaluate("window.evil === undefined") == true);
  // Even markup that a mistake let in would not run.
  CHECK(browser.Evaluate("(() => { try { document.body.innerHTML = '<img src=x>'; return 'let'; } "
                         "catch (failure) { return failure.name; } })()") == "TypeError");
  for (const std::string& url : browser.requests()) {
    CHECK((url == "about:blank" || url.starts_with("data:") ||
           url.starts_with(Url(server->address().ToString()))));
  }
}

}  // namespace status_test
