#include "tests/faults/serving.h"

#include <filesystem>
#include <iterator>
#include <sstream>

#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kProbeBytes = 100'003;

void Move(Client& initiator, const Endpoint& source, const Endpoint& destination) {
  const auto done = initiator.RunTransfer(
      {.source = source, .destination = destination, .policy = {}, .checksum = true});
  REQUIRE_OK(done);
  REQUIRE_OK(OutcomeOf(*done));
}

}  // namespace

void CheckServes(const Node& node) { CheckMoves(node, node); }

void CheckMoves(const Node& from, const Node& to) {
  Client source = from.Connect();
  Client destination = to.Connect();
  const HostBuffer sent = Filled(source, "", kProbeBytes, 7);
  const HostBuffer received = Must(destination.CreateHostBuffer("", kProbeBytes));
  const BufferInfo made =
      Must(destination.CreateBuffer({.name = "probe", .bytes = kProbeBytes, .memory = "host"}));
  Endpoint between{to.name(), made.name, {}, {}};
  Move(source, sent.endpoint(), between);
  Move(destination, between, received.endpoint());
  REQUIRE(IsPayload(received.data(), kProbeBytes, 7));
  REQUIRE_OK(destination.DeleteBuffer(made.name));
}

Kept::Kept(const Node& node, uint64_t bytes) : node_(node) {
  Client client = node.Connect();
  Must(client.CreateBuffer({.name = "kept", .bytes = bytes, .memory = "host"}));
  const HostBuffer filled = Filled(client, "", bytes, 3);
  Move(client, filled.endpoint(), {"", "kept", {}, {}});
  sum_ = Must(client.SumBuffer({"", "kept", {}, {}})).value;
}

void Kept::CheckUnchanged() const {
  Client client = node_.Connect();
  const auto sum = client.SumBuffer({"", "kept", {}, {}});
  REQUIRE_OK(sum);
  REQUIRE(sum->value == sum_);
}

Survivors::Survivors(const std::string& config)
    : pair(config), east(pair.east), west(pair.west), in_east(pair.east), in_west(pair.west) {}

void Survivors::Check() const {
  in_east.CheckUnchanged();
  in_west.CheckUnchanged();
  CheckMoves(pair.east, pair.west);
  CheckMoves(pair.west, pair.east);
}

void CheckRefusedNaming(const CommandResult& result, int exit_status, const std::string& code,
                        const std::string& reason, const std::string& names) {
  CheckRefused(result, exit_status, code, reason);
  INFO(result.message() << " names " << names);
  CHECK(result.message().find(names) != std::string::npos);
}

std::string RemedyOf(const CommandResult& result) {
  if (!result.json.is_object() || !result.json.contains("error")) return {};
  return result.json["error"].value("remedy", "");
}

void CheckFailed(const Status& status, Code code, const std::string& reason) {
  INFO(status.ToString());
  CHECK(status.code() == code);
  CHECK(status.reason() == reason);
  CHECK(status.message() != "");
}

uint64_t ResidentBytes(pid_t pid) {
  std::istringstream status(ReadFile("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoull(line.substr(6)) * 1024;
  }
  throw std::runtime_error("no VmRSS of process " + std::to_string(pid));
}

size_t OpenDescriptors(pid_t pid) {
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

}  // namespace onecopy::testing
