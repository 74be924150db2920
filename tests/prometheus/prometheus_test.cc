// A real Prometheus scrapes real daemons under load: every alert and every panel has data.
#include <chrono>
#include <cmath>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/prometheus/dashboard.h"
#include "tests/prometheus/server.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/scrape.h"

namespace prometheus_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

const std::string kDeploy = ONECOPY_SOURCE_DIR "/deploy/";
constexpr const char* kMissing =
    "prometheus and promtool are not installed: deploy/bootstrap --for prometheus";

std::string TlsConfig(const Authority& authority, const Authority::Files& own) {
  return "uid_domain = \"lab\"\n[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" +
         own.certificate + "\"\nkey = \"" + own.key + "\"\n[peers.\"*\"]\nuid_domain = \"lab\"\n";
}

// Two daemons, one of which is scraped by TLS, and clients that keep them busy.
struct Watched {
  Authority authority;
  Authority::Files scraper = authority.Issue("prometheus", "URI:onecopy://user/65534@east");
  Node west{"west",
            {.config = TlsConfig(authority, authority.Issue("west", "DNS:west")),
             .metrics = "127.0.0.1:0"}};
  Node east{"east",
            {.peers = {west.AsPeer()},
             .config = TlsConfig(authority, authority.Issue("east", "DNS:east")),
             .metrics = "0.0.0.0:0"}};

  std::string Configuration() const {
    const std::string port = east.metrics().substr(east.metrics().rfind(':'));
    return "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
           "rule_files: [" +
           kDeploy + "prometheus/onecopy.rules.yml]\n" +
           "scrape_configs:\n"
           "  - job_name: onecopy\n"
           "    static_configs: [{targets: [\"" +
           west.metrics() +
           "\"]}]\n"
           "  - job_name: onecopy-tls\n"
           "    scheme: https\n"
           "    tls_config: {ca_file: " +
           authority.ca() + ", cert_file: " + scraper.certificate + ", key_file: " + scraper.key +
           ", server_name: east}\n"
           "    static_configs: [{targets: [\"127.0.0.1" +
           port + "\"]}]\n";
  }
};

// What an operator's users do: by rings and by gRPC, inside and between, and some of it wrong.
class Load {
 public:
  explicit Load(Watched& with)
      : by_ring_(with.east.Connect()),
        by_grpc_(with.east.Connect(false)),
        from_(Filled(by_ring_, "from", kBytes, 1)),
        inside_(Must(by_ring_.CreateHostBuffer("inside", kBytes))) {
    Must(by_ring_.CreateBuffer({.name = "far", .bytes = kBytes, .memory = "host", .node = "west"}));
    // Of the daemon's, as the failure may come while the source is being made ready.
    Must(by_ring_.CreateBuffer({.name = "late", .bytes = kBytes, .memory = "host"}));
    with.east.Do({"probe", "west"});
    with.west.Do({"probe", "east"});
  }

  void Turn() {
    for (Client* client : {&by_ring_, &by_grpc_}) {
      for (const auto& [from, to] :
           {std::pair<Endpoint, Endpoint>{{"east", "from"}, {"east", "inside"}},
            {{"east", "from"}, {"west", "far"}},
            {{"west", "far"}, {"east", "inside"}}}) {
        Must(client->RunTransfer({.source = from, .destination = to}));
      }
    }
    TransferRequest staged{.source = {"east", "from"}, .destination = {"west", "far"}};
    staged.policy.path_glob = "tcp-staged";
    Must(by_grpc_.RunTransfer(staged));
    CHECK_FALSE(
        by_grpc_.RunTransfer({.source = {"west", "none"}, .destination = {"east", "inside"}}).ok());
    TransferRequest late{.source = {"east", "late"}, .destination = {"west", "far"}};
    late.policy.path_glob = "tcp-staged";
    late.deadline = std::chrono::milliseconds(1);
    static_cast<void>(by_grpc_.RunTransfer(late));  // it fails, unless this machine is fast
  }

 private:
  static constexpr uint64_t kBytes = 4 << 20;
  Client by_ring_;
  Client by_grpc_;
  HostBuffer from_;
  HostBuffer inside_;
};

bool HasNumber(const Json& samples) {
  for (const Json& sample : samples) {
    const std::string value = sample.at("value").at(1);
    if (std::isfinite(std::stod(value))) return true;
  }
  return false;
}

// 0 or 1 where it would say nothing of what is well.
std::string Judging(const std::string& alert) {
  return std::regex_replace(alert, std::regex(" (==|>=|<=|>|<) "), " $1 bool ");
}

}  // namespace

TEST_CASE("each alert fires when it is to, and not before") {
  if (!PrometheusServer::IsInstalled()) ONECOPY_SKIP(kMissing);
  const CommandResult tested =
      RunCommand("/bin/sh", {"-c", "promtool test rules \"$1\" && promtool check rules \"$2\"",
                             "sh", kDeploy + "prometheus/onecopy.test.yml",
                             kDeploy + "prometheus/onecopy.rules.yml"});
  INFO(tested.out + tested.err);
  CHECK(tested.exit_status == 0);
  // None is without a test of its own.
  const std::string tests = ReadFile(kDeploy + "prometheus/onecopy.test.yml");
  const std::string rules = ReadFile(kDeploy + "prometheus/onecopy.rules.yml");
  const std::regex name("alert: (\\w+)");
  size_t alerts = 0;
  for (auto at = std::sregex_iterator(rules.begin(), rules.end(), name);
       at != std::sregex_iterator(); ++at, ++alerts) {
    CAPTURE((*at)[1].str());
    CHECK(tests.find("alertname: " + (*at)[1].str() + "\n") != std::string::npos);
  }
  CHECK(alerts >= 11);
}

TEST_CASE("Grafana could show the dashboard") {
  const Dashboard dashboard(kDeploy + "grafana/onecopy.json");
  for (const std::string& fault : dashboard.Faults()) {
    CAPTURE(fault);
    CHECK(false);
  }
  CHECK(dashboard.Queries().size() > 40);
}

TEST_CASE("every alert and every panel has data of daemons under load") {
  if (!PrometheusServer::IsInstalled()) ONECOPY_SKIP(kMissing);
  Watched with;
  with.east.WaitForPeer("west");
  const PrometheusServer prometheus(with.Configuration());
  Load load(with);

  std::vector<DashboardQuery> wanted = Dashboard(kDeploy + "grafana/onecopy.json").Queries();
  size_t alerts = 0;
  const Json rules = prometheus.Get("/api/v1/rules");
  for (const Json& group : rules.at("groups")) {
    for (const Json& rule : group.at("rules")) {
      wanted.push_back({rule.at("name"), Judging(rule.at("query"))});
      ++alerts;
    }
  }
  CHECK(alerts >= 11);
  // Of nodes that drain, and of none here.
  std::erase_if(wanted, [](const DashboardQuery& query) { return query.panel == "Drains"; });
  std::string missing;
  try {
    WaitUntil("all have data", [&] {
      load.Turn();
      missing.clear();
      for (const DashboardQuery& query : wanted) {
        if (HasNumber(prometheus.Query(query.expression))) continue;
        missing += "\n" + query.panel + ": " + query.expression;
      }
      return missing.empty();
    });
  } catch (const std::runtime_error& late) {
    FAIL("without data: " << missing);
  }
  for (const DashboardVariable& variable :
       Dashboard(kDeploy + "grafana/onecopy.json").Variables()) {
    CAPTURE(variable.metric, variable.label);
    CHECK_FALSE(
        prometheus.Get("/api/v1/label/" + variable.label + "/values?match[]=" + variable.metric)
            .empty());
  }
  // Both targets, and each rule, are well.
  const Json targets = prometheus.Get("/api/v1/targets");
  for (const Json& target : targets.at("activeTargets")) {
    INFO(target.dump());
    CHECK(target.at("health") == "up");
  }
  const Json judged = prometheus.Get("/api/v1/rules");
  for (const Json& group : judged.at("groups")) {
    for (const Json& rule : group.at("rules")) {
      INFO(rule.dump());
      CHECK(rule.at("health") == "ok");
    }
  }
}

TEST_CASE("Prometheus' own linter finds nothing wrong with names and types") {
  if (!PrometheusServer::IsInstalled()) ONECOPY_SKIP(kMissing);
  Node node("east", {.metrics = "127.0.0.1:0"});
  const CommandResult lint =
      RunCommand("/bin/sh", {"-c", "promtool check metrics"}, ScrapeOf(node.metrics()).text());
  INFO(lint.out + lint.err);
  CHECK(lint.exit_status == 0);
}

}  // namespace prometheus_test
