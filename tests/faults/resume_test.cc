// A wire that carries nothing for a while in the middle of a transfer: what has arrived stays, and
// the rest follows. Each rig is a pair of daemons with a wire of its own.
#include <chrono>
#include <cstddef>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/holder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/wire.h"

namespace resume_test {
namespace {

using onecopy::Attempt;
using onecopy::Client;
using onecopy::HostBuffer;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;
using namespace std::chrono_literals;

constexpr uint64_t kMegabits = 160;
constexpr uint64_t kBytes = uint64_t{96} << 20;  // five seconds on the wire
constexpr uint64_t kSeen = uint64_t{16} << 20;   // of it, before the cut
// What may be moved twice: all that is under way at a time.
constexpr uint64_t kWindow = uint64_t{64} << 20;
constexpr char kConfig[] =
    "insecure = true\nuid_domain = \"resume\"\n[staging]\nslot_bytes = \"256KiB\"\nslots = 16\n"
    "[tcp]\nlanes = 2\nthreads = 1\n[peering]\nheartbeat = \"500ms\"\n"
    "[peers.\"*\"]\nuid_domain = \"resume\"\n";

NodeOptions OptionsAt(const Wire& wire, Wire::End end, const std::string& more,
                      std::vector<std::string> peers = {}) {
  const std::string address = std::string(Wire::Address(end)) + ":0";
  return {.peers = std::move(peers),
          .config = kConfig + more,
          .listen = address,
          .lanes = address,
          .in_child = wire.Inside(end)};
}

// East's "in" is what is read into; west's "out" has the bytes.
struct Rig {
  explicit Rig(const std::string& more = {})
      : wire(kMegabits),
        west("west", OptionsAt(wire, Wire::End::kWest, more)),
        east("east", OptionsAt(wire, Wire::End::kEast, more, {west.AsPeer()})),
        in_west(west.Connect()),
        in_east(east.Connect()),
        out(Filled(in_west, "out", kBytes, 7)),
        in(Filled(in_east, "in", kBytes, 8)) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }

  static TransferRequest Request(const std::string& path) {
    TransferRequest request;
    request.source = {"west", "out", {}, {}};
    request.destination = {"east", "in", {}, {}};
    request.policy.path_glob = path;
    return request;
  }
  TransferInfo SeeArrived(Client& client, const onecopy::TransferId& id) const {
    TransferInfo seen;
    WaitUntil("bytes arrive", [&] {
      seen = Must(client.GetTransfer(id));
      return seen.bytes_done >= kSeen || onecopy::IsFinal(seen.state);
    });
    return seen;
  }
  void Cut(bool from_west, bool from_east) {
    if (from_west) wire.Cut(Wire::End::kWest);
    if (from_east) wire.Cut(Wire::End::kEast);
  }
  void Mend() {
    wire.Mend(Wire::End::kWest);
    wire.Mend(Wire::End::kEast);
  }
  // Until the one that decides has noticed, whose progress then never falls.
  void SeeWaiting(const onecopy::TransferId& id) {
    WaitUntil("the transfer waits", [&] {
      return Must(in_east.GetTransfer(id)).waits_for.find("to answer again") != std::string::npos;
    });
  }

  Wire wire;
  Node west;
  Node east;
  Client in_west;
  Client in_east;
  HostBuffer out;
  HostBuffer in;
};

uint64_t Moved(const TransferInfo& transfer) {
  const auto& attempts = transfer.receipt.attempts;
  return std::accumulate(attempts.begin(), attempts.end(), uint64_t{0},
                         [](uint64_t sum, const Attempt& one) { return sum + one.bytes; });
}

}  // namespace

TEST_CASE("a transfer goes on after a cut with what had not arrived, at either end's order") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const std::string path = GENERATE("tcp-direct", "tcp-staged");
  const bool pushed = path == "tcp-direct";  // asked for by the source's node
  CAPTURE(path);
  Rig rig;
  Client& client = pushed ? rig.in_west : rig.in_east;
  TransferRequest request = Rig::Request(path);
  request.checksum = true;
  const auto id = Must(client.StartTransfer(request)).id;
  const uint64_t before = rig.SeeArrived(client, id).bytes_done;
  REQUIRE(before >= kSeen);
  rig.Cut(true, pushed);
  rig.SeeWaiting(id);
  const TransferInfo waiting = Must(rig.in_east.GetTransfer(id));
  CHECK(waiting.state == TransferState::kRunning);
  CHECK(waiting.bytes_done >= before);
  rig.Mend();
  const TransferInfo ended = Must(client.AwaitTransfer(id));
  INFO(ended.error.ToString());
  REQUIRE(ended.state == TransferState::kSucceeded);
  CHECK(ended.bytes_done == kBytes);
  CHECK(ended.receipt.checksum->verified);
  CHECK(IsPayload(rig.in.data(), kBytes, 7));
  const auto& attempts = ended.receipt.attempts;
  REQUIRE(attempts.size() >= 2);
  CHECK(attempts.back().outcome == "SUCCEEDED");
  CHECK(attempts.back().bytes < kBytes);
  CHECK(attempts.front().bytes >= kSeen / 2);
  CHECK(Moved(ended) >= kBytes);
  CHECK(Moved(ended) <= kBytes + kWindow);
  for (const auto& step : ended.receipt.steps) CHECK(step.bytes >= kBytes);
  CHECK(ended.receipt.evidence.contains("resumed"));
}

TEST_CASE("several buffers that are under way go on together") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  constexpr uint64_t kOne = uint64_t{24} << 20;
  constexpr uint32_t kBuffers = 4;
  Rig rig;
  TransferRequest request;
  std::vector<HostBuffer> sources;
  for (uint32_t i = 0; i < kBuffers; ++i) {
    sources.push_back(Filled(rig.in_west, "part" + std::to_string(i), kOne, 20 + i));
    const onecopy::Endpoint source{"west", "part" + std::to_string(i), {}, {}};
    if (i == 0) {
      request.source = source;
    } else {
      request.more_sources.push_back(source);
    }
    request.ranges.push_back({{0, kOne, 0, 1}, {i * kOne, kOne, 0, 1}, i, 0});
  }
  request.destination = {"east", "in", {}, {}};
  request.policy.path_glob = "tcp-*";
  request.checksum = true;
  const auto id = Must(rig.in_east.StartTransfer(request)).id;
  REQUIRE(rig.SeeArrived(rig.in_east, id).bytes_done >= kSeen);
  rig.Cut(true, true);
  rig.SeeWaiting(id);
  rig.Mend();
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
  REQUIRE_OK(OutcomeOf(ended));
  CHECK(ended.bytes_done == kBuffers * kOne);
  for (uint32_t i = 0; i < kBuffers; ++i) {
    CHECK(IsPayload(rig.in.data() + i * kOne, kOne, 20 + i));
  }
}

TEST_CASE("several cuts of one transfer cost no byte that had arrived") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig;
  const auto id = Must(rig.in_east.StartTransfer(Rig::Request("tcp-*"))).id;
  uint64_t seen = 0;
  for (int cut = 0; cut < 3; ++cut) {
    WaitUntil("more arrives", [&] {
      const TransferInfo now = Must(rig.in_east.GetTransfer(id));
      return now.bytes_done >= seen + kSeen || onecopy::IsFinal(now.state);
    });
    seen = Must(rig.in_east.GetTransfer(id)).bytes_done;
    rig.Cut(cut != 1, cut != 0);
    rig.SeeWaiting(id);
    rig.Mend();
  }
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
  REQUIRE_OK(OutcomeOf(ended));
  CHECK(IsPayload(rig.in.data(), kBytes, 7));
  CHECK(Moved(ended) <= kBytes + kWindow);
}

TEST_CASE("a transfer that waits for a lost peer keeps its deadline, and can be cancelled") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig;
  TransferRequest request = Rig::Request("tcp-*");
  const bool cancelled = GENERATE(true, false);
  if (!cancelled) request.deadline = 20s;
  const auto id = Must(rig.in_east.StartTransfer(request)).id;
  rig.SeeArrived(rig.in_east, id);
  rig.Cut(true, true);
  rig.SeeWaiting(id);
  if (cancelled) Must(rig.in_east.CancelTransfer(id));
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
  CHECK(ended.state == (cancelled ? TransferState::kCancelled : TransferState::kFailed));
  if (!cancelled) {
    CHECK(ended.error.reason() == onecopy::reasons::kDeadline);
    CHECK(ended.error.message().find("west to answer again") != std::string::npos);
  }
  CHECK(ended.bytes_done >= kSeen);
  // Nothing is held for it.
  REQUIRE_OK(rig.in.Close());
}

TEST_CASE("a transfer waits for a lost peer as long as it is told to") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig("[transfers]\nresume_for = \"4s\"\n");
  const auto id = Must(rig.in_east.StartTransfer(Rig::Request("tcp-*"))).id;
  rig.SeeArrived(rig.in_east, id);
  rig.Cut(true, true);
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.code() == onecopy::Code::kUnavailable);
  CHECK(ended.bytes_done >= kSeen);
}

TEST_CASE("a source whose daemon has restarted ends the transfer as soon as it answers") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig;
  const auto id = Must(rig.in_east.StartTransfer(Rig::Request("tcp-*"))).id;
  rig.SeeArrived(rig.in_east, id);
  rig.west.Kill();
  rig.SeeWaiting(id);
  rig.west.Restart();
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.code() == onecopy::Code::kUnavailable);
  CHECK(ended.bytes_done >= kSeen);
}

TEST_CASE("a source that is killed and comes back with its buffer goes on where it was") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const std::string path = GENERATE("tcp-direct", "tcp-staged");
  const bool pushed = path == "tcp-direct";  // asked for by the node that is killed
  CAPTURE(path);
  const TempFolder folder;
  const HolderEnds ends(folder / "run");
  const Wire wire(kMegabits);
  NodeOptions options =
      OptionsAt(wire, Wire::End::kWest, "[restart]\nholder = \"own\"\nhold_for = \"60s\"\n");
  options.run_dir = folder / "run";
  Node west("west", std::move(options));
  Node east("east", OptionsAt(wire, Wire::End::kEast, "", {west.AsPeer()}));
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  west.Do({"buffer", "create", "out", "--size", std::to_string(kBytes), "--memory", "host"});
  west.Do({"cp", "-", "out"}, Payload(kBytes, 7));
  Client client = east.Connect();
  HostBuffer in = Filled(client, "in", kBytes, 8);
  TransferRequest request = Rig::Request(path);
  request.checksum = true;
  onecopy::TransferId id;
  if (pushed) {
    Client asks = west.Connect();
    id = Must(asks.StartTransfer(request)).id;
  } else {
    id = Must(client.StartTransfer(request)).id;
  }
  uint64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    const uint64_t least = before + kSeen;
    WaitUntil("bytes arrive", [&] {
      before = Must(client.GetTransfer(id)).bytes_done;
      return before >= least;
    });
    west.Kill();
    west.Restart();
  }
  // As long as it runs, and afterwards, its source knows it, too.
  const TransferInfo ended = Must(client.AwaitTransfer(id));
  INFO(ended.error.ToString());
  REQUIRE(ended.state == TransferState::kSucceeded);
  CHECK(ended.receipt.checksum->verified);
  CHECK(IsPayload(in.data(), kBytes, 7));
  const auto& attempts = ended.receipt.attempts;
  REQUIRE(attempts.size() >= 3);
  CHECK(attempts.back().outcome == "SUCCEEDED");
  CHECK(attempts.back().bytes < kBytes);
  CHECK(Moved(ended) <= kBytes + 2 * kWindow);
  CHECK(west.WaitForTransfer(id.str(), "SUCCEEDED").at("role") == "source");
  // Nothing of it is left for a third life.
  west.Kill();
  west.Restart();
  CHECK(west.Do({"transfer", "ls"}).empty());
}

TEST_CASE("a destination that is killed and comes back with its buffer goes on where it was") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const std::string path = GENERATE("tcp-direct", "tcp-staged");
  const bool pulled = path == "tcp-direct";  // asked for by the node that is killed
  CAPTURE(path);
  const TempFolder folder;
  const HolderEnds ends(folder / "run");
  const Wire wire(kMegabits);
  Node west("west", OptionsAt(wire, Wire::End::kWest, ""));
  NodeOptions options = OptionsAt(
      wire, Wire::End::kEast, "[restart]\nholder = \"own\"\nhold_for = \"60s\"\n", {west.AsPeer()});
  options.run_dir = folder / "run";
  Node east("east", std::move(options));
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  east.Do({"buffer", "create", "in", "--size", std::to_string(kBytes), "--memory", "host"});
  Client client = west.Connect();
  const HostBuffer out = Filled(client, "out", kBytes, 7);
  TransferRequest request = Rig::Request(path);
  request.checksum = true;
  onecopy::TransferId id;
  if (pulled) {
    Client asks = east.Connect();
    id = Must(asks.StartTransfer(request)).id;
  } else {
    id = Must(client.StartTransfer(request)).id;
  }
  uint64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    const uint64_t least = before + kSeen;
    WaitUntil("bytes arrive", [&] {
      before = east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>();
      return before >= least;
    });
    east.Kill();
    east.Restart();
    // At once, and as much as had arrived but for what is not recorded yet.
    const Json again = east.Do({"transfer", "show", id.str()});
    CHECK(again.at("state") == "RUNNING");
    CHECK(again.at("bytes_done").get<uint64_t>() + (uint64_t{8} << 20) >= before);
  }
  const Json ended = east.WaitForTransfer(id.str(), "SUCCEEDED");
  INFO(ended.dump(2));
  CHECK(ended.at("checksum").at("verified") == true);
  CHECK(Contents(east, "in") == Payload(kBytes, 7));
  const Json& attempts = ended.at("attempts");
  REQUIRE(attempts.size() >= 2);
  CHECK(attempts.front().at("outcome") == "PEER_RESTARTED");
  CHECK(attempts.back().at("outcome") == "SUCCEEDED");
  CHECK(attempts.back().at("bytes") < kBytes);
  CHECK(ended.at("evidence").at("resumed").get<std::string>().find("a restart of node east") !=
        std::string::npos);
  // The source has heard of it, and nothing is left of it for a third life.
  CHECK(Must(client.AwaitTransfer(id)).state == TransferState::kSucceeded);
  east.Kill();
  east.Restart();
  CHECK(east.Do({"transfer", "ls"}).empty());
}
}  // namespace resume_test
