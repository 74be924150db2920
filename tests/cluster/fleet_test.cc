// Many daemons that start at once. In every run a few; as many as ONECOPY_FLEET says (64) by hand:
//   ONECOPY_FLEET=64 build/release/bin/tests/cluster/fleet
// It prints what they took, beside the load of the machine, for the figures of a fleet.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "onecopy/client.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/fleet_size.h"
#include "tests/support/process.h"

namespace fleet_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;
using Clock = std::chrono::steady_clock;

constexpr size_t kFew = 10;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// CPU time of a process, in seconds.
double CpuOf(pid_t pid) {
  std::string text = onecopy::testing::ReadFile("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  double ticks = 0;
  for (int i = 3; i <= 15 && fields >> field; ++i) {
    if (i >= 14) ticks += std::stod(field);
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string Load() {
  std::string load = onecopy::testing::ReadFile(std::string("/proc/loadavg"));
  return load.substr(0, load.find(' '));
}

// Daemons that name each other as peers, each at an address of its own of loopback, so that all
// addresses are known before the first one starts.
class Fleet {
 public:
  Fleet(size_t count, bool tls) : count_(count) {
    for (size_t i = 0; i < count; ++i) WriteConfig(i, tls);
    begun_ = Clock::now();
    for (size_t i = 0; i < count; ++i) {
      daemons_.push_back(std::make_unique<Process>(ProcessOptions{
          .program = "onecopyd",
          .arguments = {"--config", folder_ / (Name(i) + ".toml")},
          .error_file = LogOf(i),
      }));
    }
    for (size_t i = 0; i < count; ++i) {
      const std::string ready = daemons_[i]->ReadLine();
      if (!ready.starts_with("ready ")) {
        throw std::runtime_error(Name(i) + " does not serve: " + ready +
                                 onecopy::testing::ReadFile(LogOf(i)));
      }
    }
  }

  size_t size() const { return count_; }
  Clock::duration age() const { return Clock::now() - begun_; }
  std::string LogOf(size_t i) const { return folder_ / (Name(i) + ".log"); }

  Client Connect(size_t i) const {
    Result<Client> client = Client::Connect({.run_dir = folder_ / Name(i), .program = "fleet"});
    if (!client.ok()) throw std::runtime_error(client.status().ToString());
    return *std::move(client);
  }
  // How many others the daemon is connected to.
  size_t ConnectedTo(Client& client) const {
    size_t connected = 0;
    const Result<std::vector<NodeInfo>> nodes = client.ListNodes();
    REQUIRE_OK(nodes);
    for (const NodeInfo& node : *nodes) {
      if (!node.self && node.state == NodeState::kConnected) ++connected;
    }
    return connected;
  }
  // Waits until each is connected to each.
  void WaitUntilWhole() const {
    for (size_t i = 0; i < count_; ++i) {
      Client client = Connect(i);
      WaitUntil(Name(i) + " is connected to all others",
                [&] { return ConnectedTo(client) == count_ - 1; });
    }
  }
  double cpu() const {
    double all = 0;
    for (const auto& daemon : daemons_) all += CpuOf(daemon->pid());
    return all;
  }
  // Lines of all logs that have this text.
  size_t Logged(const std::string& text) const {
    size_t lines = 0;
    for (size_t i = 0; i < count_; ++i) {
      std::ifstream log(LogOf(i));
      for (std::string line; std::getline(log, line);) {
        if (line.find(text) != std::string::npos) ++lines;
      }
    }
    return lines;
  }

 private:
  static std::string Name(size_t i) { return "node" + std::to_string(i); }
  static std::string Address(size_t i) {
    const auto pid = static_cast<unsigned>(::getpid());
    return "127." + std::to_string(1 + pid / 256 % 200) + "." + std::to_string(pid % 256) + "." +
           std::to_string(1 + i);
  }

  void WriteConfig(size_t i, bool tls) {
    std::ofstream file(folder_ / (Name(i) + ".toml"));
    file << "version = 1\nname = \"" << Name(i) << "\"\nlisten = \"" << Address(i)
         << ":7701\"\nlanes = \"" << Address(i) << ":0\"\nrun_dir = \"" << folder_ / Name(i)
         << "\"\nmetrics_listen = \"off\"\n";
    if (tls) {
      const Authority::Files files = authority_.Issue(Name(i), "DNS:" + Name(i));
      file << "[tls]\nca = \"" << authority_.ca() << "\"\ncertificate = \"" << files.certificate
           << "\"\nkey = \"" << files.key << "\"\n";
    }
    for (size_t peer = 0; peer < count_; ++peer) {
      if (peer != i) {
        file << "[peers." << Name(peer) << "]\naddress = \"" << Address(peer) << ":7701\"\n";
      }
    }
  }

  const size_t count_;
  TempFolder folder_;
  Authority authority_;
  Clock::time_point begun_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

// Starts them, and says what it took and what they take when nothing is asked of them.
void Meet(bool tls) {
  const Fleet fleet(onecopy::testing::FleetSize(kFew), tls);
  fleet.WaitUntilWhole();
  const double met = Seconds(fleet.age());
  const double cpu = fleet.cpu();
  // Everyone met everyone, and that once: nothing was given up and begun anew.
  const size_t pairs = fleet.size() * (fleet.size() - 1);
  CHECK(fleet.Logged("peer CONNECTED") == pairs);
  std::cerr << fleet.size() << " daemons" << (tls ? " with TLS" : "") << ": all connected after "
            << met << " s and " << cpu << " s of CPU, load " << Load() << "; greetings without "
            << "an answer in time: " << fleet.Logged("has not answered Hello") << "\n";
  if (fleet.size() <= kFew) return;
  const Clock::time_point begun = Clock::now();
  ::sleep(20);  // what is measured
  const double share = (fleet.cpu() - cpu) / Seconds(Clock::now() - begun);
  std::cerr << "at rest: " << share * 100 << " % of one core together, load " << Load() << "\n";
  CHECK(fleet.Logged("peer CONNECTED") == pairs);
  CHECK(met <= 60);
  CHECK(share <= 0.2);
}

}  // namespace

TEST_CASE("daemons with certificates that start at once all find each other") { Meet(true); }

TEST_CASE("daemons of one user that start at once on one machine all find each other") {
  Meet(false);
}

}  // namespace fleet_test
