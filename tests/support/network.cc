#include "tests/support/network.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

os::UniqueFd MakeNamespace() {
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

std::string WhyNoProgram(const std::string& name) {
  return ProgramAt(name).empty() ? "program " + name + " is not installed" : "";
}

NetworkNamespace::NetworkNamespace() : namespace_(MakeNamespace()) { Do("ip link set lo up"); }

std::string NetworkNamespace::name() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(namespace_.get());
}

std::string NetworkNamespace::Do(const std::string& command) const {
  std::istringstream words(command);
  std::string program;
  words >> program;
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  Process process({.program = ProgramAt(program),
                   .arguments = std::move(arguments),
                   .in_child = [network = namespace_.get()] {
                     OrExit(::setns(network, CLONE_NEWNET) == 0, "entering a network namespace");
                   }});
  std::string said = process.ReadAll();
  if (const int status = process.Wait(); status != 0) {
    throw std::runtime_error(command + " ended with status " + std::to_string(status));
  }
  return said;
}

void NetworkNamespace::WaitForLink(const std::string& device) const {
  WaitUntil(device + " is up", [&] {
    return Do("ip -o link show dev " + device).find(" state UP ") != std::string::npos;
  });
}

uint64_t NetworkNamespace::BytesSent(const std::string& device) const {
  const std::string said = Do("ip -j -s link show dev " + device);
  return nlohmann::json::parse(said).at(0).at("stats64").at("tx").at("bytes").get<uint64_t>();
}

std::function<void()> NetworkNamespace::Inside() const {
  return [network = namespace_.get()] {
    OrExit(::setns(network, CLONE_NEWNET) == 0, "entering a network namespace");
    OrExit(::unshare(CLONE_NEWNS) == 0 &&
               ::mount("", "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
               ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0,
           "showing a network namespace in /sys");
  };
}

}  // namespace onecopy::testing
