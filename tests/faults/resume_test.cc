// A wire that carries nothing for a while in the middle of a transfer: what has arrived stays, and
// the rest follows. Each rig is a pair of daemons with a wire of its own.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
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
  const std::string address = wire.Address(end) + ":0";
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

// A holder has the memory of one of the two daemons, which is going to be killed.
struct HeldRig {
  explicit HeldRig(Wire::End dying, const std::string& more = {})
      : ends(folder / "run"),
        west("west", Options(Wire::End::kWest, dying, more)),
        east("east", Options(Wire::End::kEast, dying, more, {west.AsPeer()})),
        source_dies(dying == Wire::End::kWest) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }

  // "out" in the west and "in" in the east.
  void CreateBuffers(const std::string& memory) const {
    const std::string bytes = std::to_string(kBytes);
    west.Do({"buffer", "create", "out", "--size", bytes, "--memory", memory});
    east.Do({"buffer", "create", "in", "--size", bytes, "--memory", memory});
  }

  Node& dying() { return source_dies ? west : east; }
  Node& other() { return source_dies ? east : west; }

  TempFolder folder;
  HolderEnds ends;
  Wire wire{kMegabits};
  Node west;
  Node east;
  const bool source_dies;

 private:
  NodeOptions Options(Wire::End end, Wire::End dying, const std::string& more,
                      std::vector<std::string> peers = {}) const {
    const bool held = end == dying;
    const std::string config = held ? "[restart]\nholder = \"own\"\nhold_for = \"60s\"\n"
                                      "[transfers]\ndrain_timeout = \"100ms\"\n"
                                    : "";
    NodeOptions options = OptionsAt(wire, end, config + more, std::move(peers));
    if (held) options.run_dir = folder / "run";
    return options;
  }
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

TEST_CASE(
    "a daemon that comes back resumes its transfers when it was killed and when it was stopped") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const std::string path = GENERATE("tcp-direct", "tcp-staged");
  const bool source_dies = GENERATE(true, false);
  CAPTURE(path, source_dies);
  HeldRig rig(source_dies ? Wire::End::kWest : Wire::End::kEast);
  // The memory at the other end is a client's, which lives on.
  Client client = rig.other().Connect();
  rig.dying().Do({"buffer", "create", source_dies ? "out" : "in", "--size", std::to_string(kBytes),
                  "--memory", "host"});
  const HostBuffer clients =
      source_dies ? Filled(client, "in", kBytes, 8) : Filled(client, "out", kBytes, 7);
  if (source_dies) rig.west.Do({"cp", "-", "out"}, Payload(kBytes, 7));
  TransferRequest request = Rig::Request(path);
  request.checksum = true;
  // One path is asked for at the node that is killed, the other one at the other node. The client
  // waits for the transfer's end all the while.
  Client asking = path == "tcp-direct" ? rig.dying().Connect() : rig.other().Connect();
  request.request_id = "weights";
  const auto id = Must(asking.StartTransfer(request)).id;
  const onecopy::TransferFuture future = Must(asking.AwaitTransferAsync(id));
  auto waiting = std::async(std::launch::async, [&] { return asking.AwaitTransfer(id); });
  uint64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    const uint64_t least = before + kSeen;
    WaitUntil("bytes arrive", [&] {
      before = rig.east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>();
      return before >= least;
    });
    const bool killed = round == 0;
    if (killed) rig.dying().Kill();
    if (!killed) CHECK(rig.dying().Stop() == 0);
    rig.dying().Restart();
    // The order has survived, too: repeating it starts nothing.
    CHECK(Must(asking.StartTransfer(request)).id == id);
    if (source_dies) continue;
    // The new daemon knows the transfer at once, except for bytes that were not recorded yet.
    const Json again = rig.east.Do({"transfer", "show", id.str()});
    CHECK(again.at("state") == "RUNNING");
    CHECK(again.at("bytes_done").get<uint64_t>() + (uint64_t{8} << 20) >= before);
  }
  const TransferInfo heard = Must(waiting.get());
  INFO(heard.error.ToString());
  CHECK(heard.state == TransferState::kSucceeded);
  CHECK(Must(future.Get()).state == TransferState::kSucceeded);
  const Json ended = rig.east.WaitForTransfer(id.str(), "SUCCEEDED");
  INFO(ended.dump(2));
  CHECK(ended.at("checksum").at("verified") == true);
  if (source_dies) {
    CHECK(IsPayload(clients.data(), kBytes, 7));
  } else {
    CHECK(Contents(rig.east, "in") == Payload(kBytes, 7));
    CHECK(ended.at("evidence").at("resumed").get<std::string>().find("a restart of node east") !=
          std::string::npos);
  }
  const Json& attempts = ended.at("attempts");
  REQUIRE(attempts.size() >= (source_dies ? 3 : 2));
  const std::string first = attempts.front().at("outcome");
  CAPTURE(first);
  CHECK((source_dies ? first == "LINK_DOWN" || first == "PEER_DOWN" : first == "PEER_RESTARTED"));
  CHECK(attempts.back().at("outcome") == "SUCCEEDED");
  CHECK(attempts.back().at("bytes") < kBytes);
  uint64_t moved = 0;
  for (const Json& one : attempts) moved += one.at("bytes").get<uint64_t>();
  CHECK(moved <= kBytes + 2 * kWindow);
  CHECK(rig.west.WaitForTransfer(id.str(), "SUCCEEDED").at("role") == "source");
  // Nothing of it is left for a third life.
  rig.dying().Kill();
  rig.dying().Restart();
  CHECK(rig.dying().Do({"transfer", "ls"}).empty());
}

TEST_CASE("a transfer that a restart of the destination ends is shown as failed") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  HeldRig rig(Wire::End::kEast);
  Client in_west = rig.west.Connect();
  const HostBuffer out = Filled(in_west, "out", kBytes, 7);
  rig.east.Do({"buffer", "create", "in", "--size", std::to_string(kBytes), "--memory", "host"});
  TransferRequest request = Rig::Request("tcp-*");
  request.deadline = 60s;  // such a transfer is not resumed
  Client in_east = rig.east.Connect();
  const auto id = Must(in_east.StartTransfer(request)).id;
  auto waiting = std::async(std::launch::async, [&] { return in_east.AwaitTransfer(id); });
  WaitUntil("bytes arrive", [&] {
    return rig.east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>() >= kSeen;
  });
  rig.east.Kill();
  rig.east.Restart();
  const TransferInfo ended = Must(waiting.get());
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.reason() == onecopy::reasons::kPeerRestarted);
  rig.west.WaitForTransfer(id.str(), "FAILED");
}

TEST_CASE("what clients wait for is said to be lost when the daemon does not come back") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  HeldRig rig(Wire::End::kEast);
  Client in_west = rig.west.Connect();
  const HostBuffer out = Filled(in_west, "out", kBytes, 7);
  rig.east.Do({"buffer", "create", "in", "--size", std::to_string(kBytes), "--memory", "host"});
  Client in_east = rig.east.Connect();
  std::optional<Client> closed(rig.east.Connect());
  TransferRequest request = Rig::Request("tcp-*");
  const auto id = Must(in_east.StartTransfer(request)).id;
  std::atomic<int> heard = 0;
  onecopy::TransferCallbacks callbacks;
  callbacks.on_end = [&](const onecopy::Result<TransferInfo>& ended) {
    CHECK(ended.status().code() == onecopy::Code::kCancelled);
    ++heard;
  };
  const auto future = Must(closed->AwaitTransferAsync(id, callbacks));
  auto waiting = std::async(std::launch::async, [&] { return in_east.AwaitTransfer(id); });
  WaitUntil("bytes arrive", [&] {
    return rig.east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>() >= kSeen;
  });
  rig.east.Kill();
  // The future waits for the next daemon. Its client ends all the same, and no callback comes
  // later.
  closed.reset();
  CHECK(heard == 1);
  const onecopy::Status lost = waiting.get().status();
  INFO(lost.ToString());
  CHECK(lost.reason() == onecopy::reasons::kSessionLost);
  // Nothing was under way.
  CHECK(in_east.Ping().reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("an order that the destination does not know after both nodes restarted has failed") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  HeldRig rig(Wire::End::kWest);
  rig.CreateBuffers("host");
  Client in_west = rig.west.Connect();
  const auto id = Must(in_west.StartTransfer(Rig::Request("tcp-*"))).id;
  rig.west.Kill();
  rig.east.Kill();
  rig.east.Restart();
  rig.west.Restart();
  // Its client still waits for it.
  const TransferInfo ended = Must(in_west.AwaitTransfer(id));
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kFailed);
}

TEST_CASE("a transfer that start after start resumes in vain is given up") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  HeldRig rig(Wire::End::kEast);
  rig.CreateBuffers("host");
  const auto id = Must(rig.east.Connect().StartTransfer(Rig::Request("tcp-*"))).id;
  WaitUntil("bytes arrive", [&] {
    return rig.east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>() >= kSeen;
  });
  rig.wire.Cut(Wire::End::kWest);
  rig.wire.Cut(Wire::End::kEast);
  // The first start sees bytes that the start before had not; five more may see none.
  for (int start = 0; start < 6; ++start) {
    rig.east.Kill();
    rig.east.Restart();
    CHECK(rig.east.Do({"transfer", "show", id.str()}).at("state") == "RUNNING");
  }
  rig.east.Kill();
  rig.east.Restart();
  const Json ended = rig.east.Do({"transfer", "show", id.str()});
  CHECK(ended.at("state") == "FAILED");
  CHECK(ended.at("error").at("reason") == "PEER_RESTARTED");
  CHECK(rig.east.Log().find("a transfer is not resumed any more") != std::string::npos);
}

TEST_CASE("a planned stop fails the transfers whose buffers the holder cannot keep") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const bool source_stops = GENERATE(true, false);
  CAPTURE(source_stops);
  HeldRig rig(source_stops ? Wire::End::kWest : Wire::End::kEast,
              "[cuda]\nallocation = \"legacy\"\n[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n");
  rig.CreateBuffers("cuda:0");
  const auto id = Must(rig.other().Connect().StartTransfer(Rig::Request("*"))).id;
  WaitUntil("bytes arrive", [&] {
    return rig.east.Do({"transfer", "show", id.str()}).at("bytes_done").get<uint64_t>() >= kSeen;
  });
  CHECK(rig.dying().Stop() == 0);
  const Json ended = rig.other().WaitForTransfer(id.str(), "FAILED");
  CHECK(ended.at("error").at("reason") == "DRAINING");
}
}  // namespace resume_test
