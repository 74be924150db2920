// What real daemons say of themselves to Prometheus, held against receipts and the documentation.
#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/scrape.h"

namespace metrics_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr uint64_t kPiece = 4096;
constexpr const char* kBytes = "onecopy_transfer_bytes_total";
constexpr const char* kTransfers = "onecopy_transfers_total";

// Two daemons that serve metrics, and clients of the second one.
struct Watched {
  Node west{"west", {.metrics = "127.0.0.1:0"}};
  Node east{"east",
            {.peers = {west.AsPeer()},
             .config = "[transfers]\nresume_for = \"0s\"\n",
             .metrics = "127.0.0.1:0"}};

  Watched() {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }
};

struct Documented {
  std::string type;
  std::set<std::string> labels;
};

// The table's rows: | `name` | type | `label` `label` | meaning |
std::map<std::string, Documented> DocumentedMetrics() {
  std::ifstream file(ONECOPY_SOURCE_DIR "/docs/metrics.md");
  const std::regex row(R"(^\| `([a-z_]+)` \| (\w+) \| ([^|]*)\|.*)");
  const std::regex word("`(\\w+)`");
  std::map<std::string, Documented> all;
  for (std::string line; std::getline(file, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    Documented& metric = all[found[1]];
    metric.type = found[2];
    const std::string labels = found[3];
    for (auto at = std::sregex_iterator(labels.begin(), labels.end(), word);
         at != std::sregex_iterator(); ++at) {
      metric.labels.insert((*at)[1]);
    }
  }
  return all;
}

// Runs them, and adds up what their receipts say.
struct Receipts {
  uint64_t transfers = 0;
  uint64_t bytes = 0;
  std::string path;

  void Run(Client& client, const TransferRequest& request) {
    const TransferInfo info = Must(client.RunTransfer(request));
    REQUIRE(info.state == TransferState::kSucceeded);
    REQUIRE((path.empty() || path == info.receipt.path));
    path = info.receipt.path;
    ++transfers;
    bytes += info.bytes;
  }
};

void CheckCounts(const Scrape& scrape, const Receipts& receipts, const std::string& direction,
                 const std::string& link, const std::string& peer) {
  CAPTURE(receipts.path, direction);
  CHECK(scrape.Sum(kTransfers, {{"path", receipts.path},
                                {"direction", direction},
                                {"outcome", "SUCCEEDED"},
                                {"reason", ""}}) == static_cast<double>(receipts.transfers));
  CHECK(scrape.Sum(
            kBytes,
            {{"path", receipts.path}, {"link", link}, {"peer", peer}, {"direction", direction}}) ==
        static_cast<double>(receipts.bytes));
}

}  // namespace

TEST_CASE("the documentation names each metric that a daemon has, with its type and labels") {
  Watched with;
  Client client = with.east.Connect();
  const HostBuffer from = Filled(client, "from", kPiece, 1);
  Must(client.CreateBuffer({.name = "to", .bytes = kPiece, .memory = "host", .node = "west"}));
  Receipts receipts;
  receipts.Run(client, {.source = {"east", "from"}, .destination = {"west", "to"}});
  const std::map<std::string, Documented> documented = DocumentedMetrics();
  for (const Node* node : {&with.west, &with.east}) {
    const Scrape scrape = ScrapeOf(node->metrics());
    for (const auto& [name, metric] : documented) {
      CAPTURE(name);
      CHECK(scrape.families().contains(name));
    }
    for (const auto& [name, family] : scrape.families()) {
      CAPTURE(name);
      REQUIRE(documented.contains(name));
      const Documented& metric = documented.at(name);
      CHECK(family.type == metric.type);
      CHECK(family.has_help);
      CHECK(std::includes(metric.labels.begin(), metric.labels.end(), family.labels.begin(),
                          family.labels.end()));
    }
    CHECK(scrape.Sum("onecopy_engine_answered") == 1);
    CHECK(scrape.Sum("onecopy_build_info", {{"node", node->name()}}) == 1);
  }
}

TEST_CASE("counters say what the receipts of transfers say, by path, at both nodes") {
  Watched with;
  Client client = with.east.Connect(false);
  constexpr uint64_t kAll = 4 << 20;
  const HostBuffer from = Filled(client, "from", kAll, 1);
  HostBuffer inside = Must(client.CreateHostBuffer("inside", kAll));
  Must(client.CreateBuffer({.name = "to", .bytes = kAll, .memory = "host", .node = "west"}));
  std::vector<Receipts> between;
  for (const char* path : {"tcp-direct", "tcp-bounce", "tcp-staged"}) {
    Receipts& receipts = between.emplace_back();
    for (const uint64_t bytes : {uint64_t{1}, kPiece, uint64_t{1} << 20, kAll}) {
      TransferRequest request{.source = {"east", "from", 0, bytes}, .destination = {"west", "to"}};
      request.policy.path_glob = path;
      receipts.Run(client, request);
    }
  }
  Receipts back;
  for (int i = 0; i < 3; ++i) {
    back.Run(client,
             {.source = {"west", "to", 0, kPiece}, .destination = {"east", "inside", 0, {}}});
  }
  Receipts local;
  for (int i = 0; i < 5; ++i) {
    local.Run(client, {.source = {"east", "from"}, .destination = {"east", "inside"}});
  }

  const Scrape east = ScrapeOf(with.east.metrics());
  const Scrape west = ScrapeOf(with.west.metrics());
  uint64_t sent = 0;
  for (const Receipts& receipts : between) {
    CheckCounts(east, receipts, "out", "tcp", "west");
    CheckCounts(west, receipts, "in", "tcp", "east");
    CHECK(west.Sum("onecopy_transfer_duration_seconds_count", {{"path", receipts.path}}) ==
          static_cast<double>(receipts.transfers));
    sent += receipts.bytes;
  }
  CheckCounts(east, back, "in", "tcp", "west");
  CheckCounts(west, back, "out", "tcp", "east");
  CheckCounts(east, local, "inside", "", "");
  // What is decided once is counted once.
  CHECK(west.Sum("onecopy_transfer_size_bytes_sum") == static_cast<double>(sent));
  CHECK(east.Sum("onecopy_transfer_size_bytes_sum") ==
        static_cast<double>(back.bytes + local.bytes));
  CHECK(east.Sum("onecopy_payload_bytes_total", {{"copies", "1"}}) ==
        static_cast<double>(local.bytes));
  CHECK(west.Sum("onecopy_payload_bytes_total", {{"copies", "5"}}) ==
        static_cast<double>(between.back().bytes));
  // No machine of this test has an RDMA device.
  CHECK(west.Sum("onecopy_worse_path_bytes_total",
                 {{"copies", "3"}, {"path", "tcp-direct"}, {"best", "rdma-direct"}}) ==
        static_cast<double>(between.front().bytes));
  CHECK(west.Sum("onecopy_path_refusals_total", {{"path", "rdma-direct"}}) == 12);
  CHECK(west.Sum("onecopy_staging_slots_given_total", {{"purpose", "receive"}}) > 0);
  CHECK(east.Sum("onecopy_buffers", {{"memory", "host"}, {"origin", "client"}}) == 2);
  CHECK(east.Sum("onecopy_registered_bytes", {{"memory", "host"}, {"origin", "client"}}) ==
        2.0 * kAll);
  CHECK(west.Sum("onecopy_buffers", {{"memory", "host"}, {"origin", "daemon"}}) == 1);
  CHECK(west.Sum("onecopy_transfers_running") == 0);
}

TEST_CASE("transfers by a ring are counted, and those of rings that are gone stay counted") {
  Watched with;
  constexpr uint64_t kTimes = 64;
  Receipts inside;
  Receipts out;
  Receipts in;
  {
    Client client = with.east.Connect();
    const HostBuffer from = Filled(client, "from", kPiece, 1);
    HostBuffer to = Must(client.CreateHostBuffer("to", kPiece));
    Must(client.CreateBuffer({.name = "far", .bytes = kPiece, .memory = "host", .node = "west"}));
    for (uint64_t i = 0; i < kTimes; ++i) {
      inside.Run(client, {.source = {"east", "from", 0, i + 1}, .destination = {"east", "to"}});
      out.Run(client, {.source = {"east", "from", 0, i + 1}, .destination = {"west", "far"}});
      in.Run(client, {.source = {"west", "far", 0, i + 1}, .destination = {"east", "to"}});
    }
    const Scrape east = ScrapeOf(with.east.metrics());
    CheckCounts(east, inside, "inside", "", "");
    CheckCounts(east, out, "out", "tcp", "west");
    CheckCounts(east, in, "in", "tcp", "west");
    CHECK(east.Sum("onecopy_ring_routes") == 3);
    CHECK(east.Sum("onecopy_rings") == 1);
    // Listing them makes records of them, which are not counted once more.
    REQUIRE_FALSE(with.east.Do({"transfer", "ls"}).empty());
  }
  Scrape east("");
  WaitUntil("the ring has gone", [&] {
    east = ScrapeOf(with.east.metrics());
    return east.Sum("onecopy_rings") == 0;
  });
  CheckCounts(east, inside, "inside", "", "");
  CheckCounts(east, out, "out", "tcp", "west");
  CheckCounts(east, in, "in", "tcp", "west");
  CHECK(east.Sum("onecopy_transfer_duration_seconds_count", {{"path", "local"}}) == kTimes);
}

TEST_CASE("what fails is counted with its reason, and a peer that goes takes its series along") {
  Watched with;
  Client client = with.east.Connect(false);
  constexpr uint64_t kLong = uint64_t{512} << 20;
  HostBuffer to = Must(client.CreateHostBuffer("to", kLong));
  Must(client.CreateBuffer({.name = "from", .bytes = kLong, .memory = "host", .node = "west"}));
  Receipts receipts;
  receipts.Run(client, {.source = {"west", "from", 0, kPiece}, .destination = {"east", "to"}});
  CHECK(ScrapeOf(with.east.metrics()).Has(kBytes, {{"peer", "west"}}));
  CHECK_FALSE(client.RunTransfer({.source = {"west", "none"}, .destination = {"east", "to"}}).ok());

  const TransferInfo running =
      StartAndSeeRunning(client, {.source = {"west", "from"}, .destination = {"east", "to"}});
  with.west.Kill();
  const Json failed = with.east.WaitForTransfer(running.id.str(), "FAILED");
  const std::string reason = failed.at("error").at("reason");
  Scrape scrape = ScrapeOf(with.east.metrics());
  CHECK(scrape.Sum(kTransfers, {{"path", "tcp-direct"},
                                {"direction", "in"},
                                {"outcome", "FAILED"},
                                {"reason", reason}}) == 1);
  CHECK(scrape.Sum("onecopy_transfer_requests_refused_total", {{"reason", "BUFFER_NOT_FOUND"}}) ==
        1);
  WaitUntil("the series of a peer that has gone are gone", [&] {
    scrape = ScrapeOf(with.east.metrics());
    return !scrape.Has(kBytes, {{"peer", "west"}});
  });
  // It is configured: that it does not answer is told.
  CHECK(scrape.Has("onecopy_peer_connected", {{"peer", "west"}}));
  CHECK(scrape.Sum("onecopy_peer_connected") == 0);
  CHECK(scrape.Sum(kTransfers, {{"outcome", "SUCCEEDED"}}) == 1);
}

TEST_CASE("metrics tell of a node that drains, at that node and at its peer") {
  Watched with;
  const auto says = [&](double draining) {
    return ScrapeOf(with.west.metrics()).Sum("onecopy_draining") == draining &&
           ScrapeOf(with.east.metrics()).Sum("onecopy_peers", {{"state", "DRAINING"}}) == draining;
  };
  CHECK(says(0));
  with.west.Do({"node", "drain"});
  WaitUntil("both say so", [&] { return says(1); });
  with.west.Do({"node", "undrain"});
  WaitUntil("both say that it has ended", [&] { return says(0); });
}

TEST_CASE("metrics count sessions and mapped buffers") {
  Watched with;
  const auto is = [&](double sessions, double mappings) {
    const Scrape scrape = ScrapeOf(with.east.metrics());
    return scrape.Sum("onecopy_sessions") == sessions && scrape.Sum("onecopy_mappings") == mappings;
  };
  CHECK(is(0, 0));
  {
    Client client = with.east.Connect();
    Must(client.CreateBuffer({.name = "mapped", .bytes = kPiece, .memory = "host"}));
    const auto mapped = Must(client.MapBuffer("mapped"));
    CHECK(is(1, 1));
  }
  WaitUntil("both have gone", [&] { return is(0, 0); });
}

TEST_CASE("a daemon whose metrics port is taken serves, and says so") {
  Node first("first", {.metrics = "127.0.0.1:0"});
  Node second("second", {.metrics = first.metrics()});
  CHECK(second.metrics() == "none");
  WaitUntil("the log says so", [&] {
    const std::string log = second.Log();
    return log.find("warning metrics are not served") != std::string::npos &&
           log.find(first.metrics()) != std::string::npos;
  });
  const Json metrics = second.Do({"node", "show"}).at("metrics");
  CHECK(metrics.at("address") == first.metrics());
  CHECK(metrics.at("viability").at("viable") == false);
  CHECK(metrics.at("viability").at("detail").get<std::string>().find(first.metrics()) !=
        std::string::npos);
  const auto codes = [](const Node& node) {
    const Json diagnosis = node.Run({"doctor"}).json;
    std::string all;
    for (const Json& finding : diagnosis.at("findings")) {
      all += finding.at("code").get<std::string>() + " ";
    }
    return all;
  };
  const auto found = [&](const Node& node) {
    return codes(node).find("METRICS_NOT_SERVED") != std::string::npos;
  };
  INFO(codes(second));
  CHECK(found(second));
  CHECK_FALSE(found(first));
  CHECK(first.Do({"node", "show"}).at("metrics").at("address") == first.metrics());
  CHECK(ScrapeOf(first.metrics()).Sum("onecopy_build_info", {{"node", "first"}}) == 1);
  const Node off("off");
  CHECK(off.metrics().empty());
  CHECK(off.Do({"node", "show"}).at("metrics").at("viability").at("reason") == "SWITCHED_OFF");
  CHECK_FALSE(found(off));
}

// What `openssl s_client` gets, which shows that certificate, or none.
std::string AskByTls(const std::string& at, const Authority& authority,
                     const Authority::Files* files) {
  std::vector<std::string> arguments = {
      "s_client", "-quiet", "-connect", at, "-CAfile", authority.ca(), "-verify_return_error"};
  if (files != nullptr) {
    arguments.insert(arguments.end(), {"-cert", files->certificate, "-key", files->key});
  }
  arguments.insert(arguments.begin(), "openssl");
  return RunCommand("/usr/bin/env", arguments, kGetMetrics).out;
}

TEST_CASE("beyond loopback metrics are served by TLS, to those that the authority knows") {
  Authority authority;
  Authority others;
  const Authority::Files own = authority.Issue("east", "DNS:east,URI:onecopy://east");
  const Authority::Files user = authority.Issue("prometheus", "URI:onecopy://user/65534@east");
  const Authority::Files stranger = others.Issue("prometheus", "URI:onecopy://user/65534@east");
  const Authority::Files revoked = authority.Issue("old", "DNS:old");
  const std::string tls = "[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" +
                          own.certificate + "\"\nkey = \"" + own.key + "\"\ncrl = \"" +
                          authority.Revoke({revoked}) + "\"\n";
  Node node("east", {.config = tls, .metrics = "0.0.0.0:0"});
  const std::string at = "127.0.0.1" + node.metrics().substr(node.metrics().find(':'));
  const std::string page = AskByTls(at, authority, &user);
  CHECK(page.starts_with("HTTP/1.1 200 "));
  CHECK(page.find("onecopy_build_info{node=\"east\"") != std::string::npos);
  CHECK(page.find("onecopy_certificate_expiry_timestamp_seconds{what=") != std::string::npos);
  CHECK(AskByTls(at, authority, nullptr).empty());
  CHECK(AskByTls(at, authority, &stranger).empty());
  CHECK(AskByTls(at, authority, &revoked).empty());
  // Plain HTTP has no answer there.
  CHECK_FALSE(Ask(at, kGetMetrics).starts_with("HTTP/1.1 200"));
  const std::string counted = AskByTls(at, authority, &user);
  CHECK(counted.find("onecopy_scrapes_total{outcome=\"refused\"} 4") != std::string::npos);
}

TEST_CASE("whoever talks nonsense to the metrics, or does not read, keeps nobody else from them") {
  Node node("east", {.metrics = "127.0.0.1:0"});
  const std::string& at = node.metrics();
  CHECK(Ask(at, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").find("/metrics") != std::string::npos);
  for (const std::string path :
       {"/etc/passwd", "/metrics/../../etc/passwd", "/%2e%2e/etc", "/index.html"}) {
    CAPTURE(path);
    const std::string answer = Ask(at, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK_FALSE(answer.starts_with("HTTP/1.1 200"));
    CHECK(answer.find("root:") == std::string::npos);
  }
  for (const std::string& host :
       std::vector<std::string>{"", "evil.example", "a:b:c", "\x01", std::string(3000, 'h')}) {
    Ask(at, "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }
  for (const std::string method : {"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "HACK"}) {
    const std::string answer =
        Ask(at, method + " /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    CHECK_FALSE(answer.starts_with("HTTP/1.1 200"));
  }
  Ask(at, std::string(100'000, 'x'));
  Ask(at, "GET /metrics HTTP/1.1\r\n" + std::string(100'000, 'y') + "\r\n\r\n");
  Ask(at, std::string("\0\xff\0\r\n\r\n", 7));

  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(Dial(at, 1));
    // One half never asks, the other never reads.
    if (i % 2 == 0) Send(silent.back().get(), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  CHECK(ScrapeOf(at).Sum("onecopy_engine_answered") == 1);
  CHECK_FALSE(node.Do({"node", "show"}).empty());
  silent.clear();
  CHECK(node.Stop() == 0);
}

}  // namespace metrics_test
