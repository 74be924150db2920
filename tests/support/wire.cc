#include "tests/support/wire.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

constexpr const char* kDevice = "wire0";
constexpr const char* kAddresses[] = {"10.99.0.1", "10.99.0.2"};
constexpr const char* kHardware[] = {"02:00:00:00:99:01", "02:00:00:00:99:02"};
constexpr const char* kNobody = "02:00:00:00:99:99";

Wire::End Other(Wire::End end) {
  return end == Wire::End::kWest ? Wire::End::kEast : Wire::End::kWest;
}

// A new network namespace, which lives for as long as something holds it. The caller keeps its own.
os::UniqueFd NewNamespace() {
  os::UniqueFd made;
  int error = 0;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) {
      made = os::UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    }
    if (!made) error = errno;
  }).join();
  if (!made) {
    throw std::runtime_error(std::string("no network namespace: ") + std::strerror(error));
  }
  return made;
}

std::string ProgramAt(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    const std::string path = folder + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

// For a child process: exceptions would end the test's copy in it in unforeseen ways.
void OrExit(bool well, const char* what) {
  if (well) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  ::_exit(125);
}

}  // namespace

std::string Wire::WhyNot() {
  for (const char* program : {"ip", "tc"}) {
    if (ProgramAt(program).empty()) return std::string("there is no program ") + program;
  }
  try {
    const Wire wire(1000);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

const char* Wire::Address(End end) { return kAddresses[static_cast<size_t>(end)]; }

Wire::Wire(uint64_t megabits_per_second) : ends_{NewNamespace(), NewNamespace()} {
  const std::string east =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(Namespace(End::kEast).get());
  Do(End::kWest, std::string("ip link add ") + kDevice + " address " + kHardware[0] +
                     " type veth peer name " + kDevice + " address " + kHardware[1] + " netns " +
                     east);
  for (const End end : {End::kWest, End::kEast}) {
    Do(end, std::string("ip address add ") + Address(end) + "/24 dev " + kDevice);
    Do(end, "ip link set lo up");
    Do(end, std::string("ip link set ") + kDevice + " up");
    Mend(end);
    if (megabits_per_second == 0) continue;
    Do(end, std::string("tc qdisc add dev ") + kDevice + " root tbf rate " +
                std::to_string(megabits_per_second) + "mbit burst 256kb latency 200ms");
  }
  // The kernel finds out a little later that both are up.
  for (const End end : {End::kWest, End::kEast}) {
    WaitUntil("the wire is up", [&] {
      return Do(end, std::string("ip -o link show dev ") + kDevice).find(" state UP ") !=
             std::string::npos;
    });
  }
}

std::function<void()> Wire::Inside(End end) const {
  return [network = Namespace(end).get()] {
    OrExit(::setns(network, CLONE_NEWNET) == 0, "entering a network namespace");
    OrExit(::unshare(CLONE_NEWNS) == 0 &&
               ::mount("", "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
               ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0,
           "showing a network namespace in /sys");
  };
}

std::string Wire::Do(End end, const std::string& command) const {
  std::istringstream words(command);
  std::string program;
  words >> program;
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  Process process({.program = ProgramAt(program),
                   .arguments = std::move(arguments),
                   .in_child = [network = Namespace(end).get()] {
                     OrExit(::setns(network, CLONE_NEWNET) == 0, "entering a network namespace");
                   }});
  std::string said = process.ReadAll();
  if (const int status = process.Wait(); status != 0) {
    throw std::runtime_error(command + " ended with status " + std::to_string(status));
  }
  return said;
}

void Wire::SetNeighbour(End end, const std::string& hardware_address) const {
  Do(end, std::string("ip neighbour replace ") + Address(Other(end)) + " lladdr " +
              hardware_address + " dev " + kDevice + " nud permanent");
}

void Wire::Cut(End from) { SetNeighbour(from, kNobody); }

void Wire::Mend(End from) { SetNeighbour(from, kHardware[static_cast<size_t>(Other(from))]); }

}  // namespace onecopy::testing
