#include "tests/cluster/receipts.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <set>

#include "client/cli/output/document.h"
#include "tests/support/catch.h"

namespace onecopy::testing {
namespace {

// Ends whose daemon encrypts or decrypts, which is a copy more each.
size_t SealedEnds(const Json& receipt) {
  const std::string encryption = receipt.at("encryption");
  if (encryption == "none" || encryption.ends_with(", by kernel")) return 0;
  CHECK(encryption.starts_with("TLS 1.3, TLS_"));
  return encryption.ends_with(", by daemon") ? 2 : 1;
}

void CheckSteps(const Json& receipt, const ExpectedReceipt& expected) {
  const Json& steps = receipt.at("steps");
  // Of no byte nothing is copied.
  const size_t copies = expected.bytes == 0 ? 0 : CopiesOf(expected.path) + SealedEnds(receipt);
  CHECK(receipt.at("copies") == copies);
  REQUIRE(steps.size() == copies);
  for (size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].at("bytes") == expected.bytes);
    CHECK(steps[i].at("by") != "");
    CHECK(steps[i].at("node") != "");
    if (i > 0) CHECK(steps[i].at("from") == steps[i - 1].at("to"));
  }
  if (copies == 0) return;
  CHECK(steps.front().at("from") == "host");
  CHECK(steps.back().at("to") == "host");
}

void CheckLanes(const Json& receipt, const ExpectedReceipt& expected) {
  const bool tcp = expected.path.rfind("tcp-", 0) == 0;
  const bool remote = tcp || !expected.link.empty();
  CHECK(receipt.at("link") == (tcp ? "tcp" : expected.link));
  uint64_t carried = 0;
  for (const Json& lane : receipt.at("lanes")) {
    if (tcp) {
      CHECK(lane.at("device") == "lo");
      CHECK(lane.at("peer").get<std::string>().rfind("127.0.0.1:", 0) == 0);
    } else {
      CHECK(lane.at("device") != "");
      CHECK(lane.at("peer") != "");
    }
    carried += lane.at("bytes").get<uint64_t>();
  }
  CHECK(carried == (remote ? expected.bytes : 0));
  size_t wires = 0;
  for (const Json& step : receipt.at("steps")) {
    if (step.at("by") != "wire") continue;
    ++wires;
    CHECK(step.at("loopback") == true);
    CHECK(step.at("emulated") == expected.emulated);
  }
  CHECK(wires == (remote && expected.bytes > 0 ? 1 : 0));
}

void CheckRefusals(const Json& receipt, const ExpectedReceipt& expected) {
  std::set<std::string> refused;
  for (const Json& refusal : receipt.at("refused")) {
    refused.insert(refusal.at("path"));
    CHECK(refusal.at("reason") != "");
    CHECK(refusal.at("detail") != "");
  }
  CHECK(refused.count(expected.path) == 0);
  for (const char* better : {"rdma-direct", "peer-direct", "local"}) {
    INFO(better);
    const bool best = expected.path == "local" || expected.path == "rdma-direct";
    CHECK((refused.count(better) == 1 || best));
  }
}

}  // namespace

size_t CopiesOf(const std::string& path) {
  static const std::map<std::string, size_t> kCopies = {
      {"rdma-direct", 1}, {"local", 1},      {"peer-bounce", 2}, {"rdma-bounce", 2},
      {"rdma-staged", 3}, {"tcp-direct", 3}, {"tcp-bounce", 4},  {"tcp-staged", 5}};
  return kCopies.at(path);
}

void CheckReceipt(const Json& receipt, const ExpectedReceipt& expected) {
  INFO(receipt.dump(2));
  CHECK(receipt.at("id") != "");
  CHECK(receipt.at("state") == "SUCCEEDED");
  CHECK(receipt.at("path") == expected.path);
  CHECK(receipt.at("bytes") == expected.bytes);
  CHECK(receipt.at("asked_seconds") >= receipt.at("seconds"));  // each by one clock
  CHECK(receipt.at("emulated") == (expected.emulated && expected.bytes > 0));
  CheckSteps(receipt, expected);
  CheckLanes(receipt, expected);
  CheckRefusals(receipt, expected);
  const Json& checksum = receipt.at("checksum");
  REQUIRE(checksum.is_null() != expected.checksum);
  if (expected.checksum) {
    CHECK(checksum.at("verified") == true);
    CHECK(checksum.at("algorithm") == "xxh3-128-tree");
    CHECK(checksum.at("value").get<std::string>().size() == 32);
  }
  const Json& attempts = receipt.at("attempts");
  Json tried = Json::array();
  for (const TriedBefore& before : expected.before) {
    tried.push_back(Json{{"path", before.path}, {"outcome", before.outcome}, {"bytes", 0}});
  }
  tried.push_back(
      Json{{"path", expected.path}, {"outcome", "SUCCEEDED"}, {"bytes", expected.bytes}});
  CHECK(attempts == tried);
  if (receipt.at("ranges") > 1) return;  // the ends are what they span
  const std::string range = "+" + std::to_string(expected.bytes);
  for (const char* end : {"source", "destination"}) {
    const std::string text = receipt.at(end);
    CHECK(text.size() > range.size());
    CHECK(text.substr(text.size() - range.size()) == range);
  }
}

void CheckReceipt(const TransferInfo& transfer, const ExpectedReceipt& expected) {
  CheckReceipt(cli::ToJson(transfer), expected);
}

Result<TransferInfo> RunNegotiated(Client& client, const TransferRequest& request) {
  TransferRequest negotiated = request;
  static std::atomic<int> last{0};
  negotiated.request_id = "negotiated-" + std::to_string(::getpid()) + "-" + std::to_string(++last);
  return client.RunTransfer(negotiated);
}

void CheckRefused(const CommandResult& result, int exit_status, const std::string& code,
                  const std::string& reason) {
  INFO(result.out << result.err);
  CHECK(result.exit_status == exit_status);
  REQUIRE(result.json.is_object());
  REQUIRE(result.json.contains("error"));
  CHECK(result.json["error"].value("code", "") == code);
  CHECK(result.reason() == reason);
  CHECK(result.message() != "");
}

}  // namespace onecopy::testing
