// The network between two nodes loses everything for a while. Each rig is a pair of daemons with a
// wire of its own, so that long cuts take place side by side.
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "tests/support/wire.h"
#include "transport/shim/ucx.h"

namespace cuts_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;
using namespace std::chrono_literals;

constexpr uint64_t kMegabits = 40;
constexpr uint64_t kSmall = 4096;
constexpr uint64_t kBulk = uint64_t{4} << 20;  // most of a second on the wire
// Slots for what is staged, small, as there are many daemons.
constexpr char kConfig[] =
    "insecure = true\nuid_domain = \"cuts\"\n[staging]\nslot_bytes = \"64KiB\"\nslots = 16\n"
    "[tcp]\nlanes = 2\nthreads = 1\n[ucx]\ntransports = [\"tcp\"]\nchunk_bytes = \"256KiB\"\n"
    "[peers.\"*\"]\nuid_domain = \"cuts\"\n";

enum class Lost { kFromWest, kFromEast, kBothWays };

std::string NameOf(Lost lost) {
  return lost == Lost::kFromWest   ? "from west"
         : lost == Lost::kFromEast ? "from east"
                                   : "both ways";
}

NodeOptions OptionsAt(const Wire& wire, Wire::End end, std::vector<std::string> peers = {}) {
  const std::string address = wire.Address(end) + ":0";
  return {.peers = std::move(peers),
          .config = kConfig,
          .listen = address,
          .lanes = address,
          .in_child = wire.Inside(end)};
}

// Two daemons that know each other, with the buffers "small" and "bulk" of either direction.
struct Rig {
  Rig()
      : wire(kMegabits),
        west("west", OptionsAt(wire, Wire::End::kWest)),
        east("east", OptionsAt(wire, Wire::End::kEast, {west.AsPeer()})) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    for (const Node* node : {&west, &east}) {
      Client client = node->Connect();
      for (const char* role : {"out", "in"}) {
        for (const auto& [size, bytes] : {std::pair("small", kSmall), std::pair("bulk", kBulk)}) {
          Must(client.CreateBuffer(
              {.name = std::string(size) + "-" + role, .bytes = bytes, .memory = "host"}));
        }
      }
    }
  }

  void Cut(Lost lost) {
    if (lost != Lost::kFromEast) wire.Cut(Wire::End::kWest);
    if (lost != Lost::kFromWest) wire.Cut(Wire::End::kEast);
  }
  void Mend() {
    wire.Mend(Wire::End::kWest);
    wire.Mend(Wire::End::kEast);
  }

  Wire wire;
  Node west;
  Node east;
};

struct Way {
  std::string path;
  std::string link;
};

TransferRequest Between(const std::string& from, const std::string& to, const std::string& size,
                        const Way& way) {
  TransferRequest request;
  request.source = {from, size + "-out", {}, {}};
  request.destination = {to, size + "-in", {}, {}};
  request.policy.path_glob = way.path;
  request.policy.link = way.link;
  request.checksum = true;
  return request;
}

// Copies one after the other, until it is told to stop. Those that began when the wire was whole
// must succeed, the others may fail, but only as what a cut can do.
class Load {
 public:
  Load(const Node& initiator, TransferRequest request, std::chrono::milliseconds pause,
       const std::atomic<int>& mended)
      : client_(initiator.Connect()),
        request_(std::move(request)),
        pause_(pause),
        mended_(mended),
        thread_([this] { Run(); }) {}
  ~Load() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  bool moved() const { return before_ > 0; }
  bool moved_after_mending() const { return after_ >= 2; }
  // What was not as it must be. After Stop.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  void Run() {
    while (!stop_) {
      const bool whole = mended_ > 0;
      const auto done = client_.RunTransfer(request_);
      Evaluate(whole, done.ok() ? onecopy::OutcomeOf(*done) : done.status());
      if (!stop_) std::this_thread::sleep_for(pause_);
    }
  }

  void Evaluate(bool whole, const onecopy::Status& outcome) {
    if (outcome.ok()) {
      ++(whole ? after_ : before_);
      return;
    }
    const bool of_a_cut =
        outcome.code() == Code::kUnavailable || outcome.code() == Code::kDeadlineExceeded;
    if (whole) ++after_;
    if (!whole && of_a_cut) return;
    complaints_.push_back(std::string(whole ? "begun after the mending: " : "begun before it: ") +
                          request_.source.ToString() + " > " + request_.destination.ToString() +
                          ": " + outcome.ToString());
  }

  Client client_;
  const TransferRequest request_;
  const std::chrono::milliseconds pause_;
  const std::atomic<int>& mended_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> before_ = 0;
  std::atomic<int> after_ = 0;
  std::vector<std::string> complaints_;  // the thread's until it has ended
  std::thread thread_;
};

// What did not go as it should around one cut.
std::vector<std::string> Survive(std::chrono::seconds length, Lost lost, const Way& way) {
  std::vector<std::string> wrong;
  try {
    Rig rig;
    // West reads from east: a connection that is idle during the cut.
    Client idle = rig.west.Connect();
    Must(onecopy::OutcomeOf(Must(idle.RunTransfer(Between("east", "west", "small", way)))));
    // East reads from west, and is asked to by either.
    std::atomic<int> mended = 0;
    Load bulk(rig.west, Between("west", "east", "bulk", way), 0ms, mended);
    Load small(rig.east, Between("west", "east", "small", way), 100ms, mended);
    WaitUntil("bytes move", [&] { return bulk.moved() && small.moved(); });

    rig.Cut(lost);
    std::this_thread::sleep_for(length);  // this is the cut
    rig.Mend();
    mended = 1;
    for (const char* size : {"small", "bulk"}) {
      const auto done = idle.RunTransfer(Between("east", "west", size, way));
      const onecopy::Status outcome = done.ok() ? onecopy::OutcomeOf(*done) : done.status();
      if (!outcome.ok()) wrong.push_back(std::string("idle, ") + size + ": " + outcome.ToString());
    }
    WaitUntil("copies have gone through after the cut",
              [&] { return bulk.moved_after_mending() && small.moved_after_mending(); });
    for (Load* load : {&bulk, &small}) {
      load->Stop();
      for (const std::string& complaint : load->complaints()) wrong.push_back(complaint);
    }
  } catch (const std::exception& error) {
    wrong.push_back(error.what());
  }
  return wrong;
}

}  // namespace

TEST_CASE(
    "after a cut of any length and direction the next copy goes through, idle or under load") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  const Way way =
      GENERATE(values<Way>({{"tcp-direct", "tcp"}, {"tcp-staged", "tcp"}, {"tcp-staged", "ucx"}}));
  if (const auto ucx = onecopy::shim::LoadUcx(); way.link == "ucx" && !ucx.ok()) {
    ONECOPY_SKIP(ucx.status().message());
  }
  struct Cut {
    std::chrono::seconds length;
    Lost lost;
    std::future<std::vector<std::string>> wrong;
  };
  std::vector<Cut> cuts;
  // Under AddressSanitizer as many at a time would say more of the machine than of the cuts.
  using Lengths = std::vector<std::chrono::seconds>;
  for (const auto length : kAddressSanitizer ? Lengths{2s, 33s} : Lengths{2s, 10s, 20s, 33s, 60s}) {
    for (const Lost lost : {Lost::kFromWest, Lost::kFromEast, Lost::kBothWays}) {
      cuts.push_back({length, lost, std::async(std::launch::async, Survive, length, lost, way)});
    }
  }
  for (Cut& cut : cuts) {
    const std::vector<std::string> wrong = cut.wrong.get();
    std::ostringstream text;
    for (const std::string& line : wrong) text << "\n  " << line;
    INFO(way.path << " by " << way.link << ", " << cut.length.count() << " s, packets lost "
                  << NameOf(cut.lost) << ":" << text.str());
    CHECK(wrong.empty());
  }
}
}  // namespace cuts_test
