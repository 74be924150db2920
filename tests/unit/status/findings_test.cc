// What a daemon knows by itself to be wrong.
#include "daemon/status/findings.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::status;

namespace {

const WallTime kFoundAt{std::chrono::seconds(1'800'000'000)};

std::vector<Finding> Of(const Figures& figures) {
  return FindingsOf({.figures = &figures, .now = kFoundAt});
}

const Finding* Find(const std::vector<Finding>& findings, const std::string& code) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.code == code; });
  return found == findings.end() ? nullptr : &*found;
}

Figures WithStatus() {
  Figures figures;
  figures.status.emplace();
  return figures;
}

}  // namespace

TEST_CASE("a node of which nothing is wrong has no finding") {
  Figures figures = WithStatus();
  figures.peers.peers = {{.name = "west", .connected = true, .state = NodeState::kConnected}};
  figures.quotas = {{"buffers", 90, 100, 5}, {"rings", 5, 0, 0}};
  figures.send_slots = {32, 0, 0, 7, {}};
  figures.expiries = {{"the certificate of this node", "a.pem", kFoundAt - std::chrono::hours(24),
                       kFoundAt + std::chrono::hours(24 * 300)}};
  figures.status->devices = {
      {.kind = "nic", .name = "mlx5_0"},
      {.kind = "link", .name = "ucx", .viability = Viability::No("SWITCHED_OFF", "off")}};
  CHECK(Of(figures).empty());
}

TEST_CASE("a peer that is not connected has the remedy for its reason") {
  const auto [reason, remedy] = GENERATE(table<std::string, std::string>({
      {"CERT_REJECTED", "[tls]"},
      {"ACCESS_DENIED", "[peers] of that node"},
      {"PEER_INCOMPATIBLE", "versions"},
      {"PEER_DOWN", "onecopyd runs there"},
  }));
  Figures figures = WithStatus();
  figures.peers.peers = {
      {.name = "north", .state = NodeState::kDisconnected, .reason = reason, .detail = "why"}};
  const std::vector<Finding> findings = Of(figures);
  REQUIRE(Find(findings, reason) != nullptr);
  CHECK(Find(findings, reason)->remedy.find(remedy) != std::string::npos);
  CHECK((Find(findings, reason)->remedy.find("runs there") != std::string::npos) ==
        (reason == "PEER_DOWN"));
}

TEST_CASE("each thing that is wrong has its finding, and what blocks comes first") {
  Figures figures = WithStatus();
  figures.draining = true;
  figures.peers.peers = {{.name = "north",
                          .state = NodeState::kDisconnected,
                          .reason = "CERT_REJECTED",
                          .detail = "why"},
                         {.name = "south", .connected = true, .state = NodeState::kDraining},
                         {.name = "west",
                          .connected = true,
                          .slow_transfers = 2,
                          .state = NodeState::kConnected,
                          .silent_addresses = {"10.0.2.2:7702"}}};
  figures.slow_transfers_inside = 1;
  figures.quotas = {{"buffers", 91, 100, 5}};
  figures.receive_slots = {32, 0, 3, 7, {}};
  figures.expiries = {{"the certificate of this node", "/secret/a.pem",
                       kFoundAt - std::chrono::hours(9), kFoundAt + std::chrono::hours(1)},
                      {"the list of revoked certificates", "/secret/b.pem",
                       kFoundAt - std::chrono::hours(9), kFoundAt - std::chrono::hours(1)}};
  figures.status->devices = {{.kind = "link",
                              .name = "verbs",
                              .viability = Viability::No("NO_RDMA_DEVICE", "none", "add one")}};
  const std::vector<Finding> findings = FindingsOf(
      {.figures = &figures, .log_records_dropped = 1, .audit_records_dropped = 2, .now = kFoundAt});
  for (const char* code :
       {"NODE_DRAINS", "CERT_REJECTED", "PEER_DRAINS", "ADDRESS_SILENT", "SLOW_TRANSFERS",
        "QUOTA_NEARLY_USED", "SLOTS_WAITED_FOR", "CERTIFICATE_EXPIRES", "CERTIFICATE_EXPIRED",
        "NO_RDMA_DEVICE", "LOG_RECORDS_DROPPED", "AUDIT_RECORDS_DROPPED"}) {
    CAPTURE(code);
    const Finding* const finding = Find(findings, code);
    REQUIRE(finding != nullptr);
    CHECK_FALSE(finding->evidence.empty());
    CHECK_FALSE(finding->remedy.empty());
    // A page without login names no files.
    CHECK(finding->evidence.find("/secret") == std::string::npos);
  }
  CHECK(findings.size() == 13);
  CHECK(std::is_sorted(findings.begin(), findings.end(),
                       [](const Finding& a, const Finding& b) { return a.severity < b.severity; }));
  CHECK(Find(findings, "CERT_REJECTED")->evidence == "node north: why");
  CHECK(Find(findings, "CERT_REJECTED")->severity == Severity::kBlocks);
  CHECK(Find(findings, "CERTIFICATE_EXPIRED")->severity == Severity::kBlocks);
}
