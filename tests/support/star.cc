#include "tests/support/star.h"

#include <exception>

namespace onecopy::testing {
namespace {

constexpr const char* kStarDevice = "wire0";  // at each machine
constexpr const char* kBridge = "switch0";

std::string Port(size_t machine) { return "port" + std::to_string(machine); }

// The bridge's states of the spanning tree: it carries nothing for a port that is off.
constexpr const char* kOff = "0";
constexpr const char* kForwarding = "3";

}  // namespace

std::string Star::WhyNot() {
  for (const char* program : {"ip", "tc", "bridge"}) {
    if (std::string why = WhyNoProgram(program); !why.empty()) return why;
  }
  try {
    const Star star(1, 1000);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

Star::Star(size_t machines, uint64_t megabits_per_second) : machines_(machines) {
  switch_.Do(std::string("ip link add name ") + kBridge + " type bridge");
  switch_.Do(std::string("ip link set ") + kBridge + " up");
  const auto limit = [&](const NetworkNamespace& network, const std::string& device) {
    network.Do("tc qdisc add dev " + device + " root tbf rate " +
               std::to_string(megabits_per_second) + "mbit burst 256kb latency 200ms");
  };
  for (size_t i = 0; i < machines; ++i) {
    const NetworkNamespace& machine = machines_[i];
    switch_.Do("ip link add " + Port(i) + " type veth peer name " + kStarDevice + " netns " +
               machine.name());
    switch_.Do("ip link set " + Port(i) + " master " + kBridge + " up");
    machine.Do("ip address add " + Address(i) + "/16 dev " + kStarDevice);
    machine.Do(std::string("ip link set ") + kStarDevice + " up");
    limit(switch_, Port(i));
    limit(machine, kStarDevice);
  }
  for (const NetworkNamespace& machine : machines_) machine.WaitForLink(kStarDevice);
}

std::string Star::Address(size_t machine) {
  return "10.98." + std::to_string(machine / 200) + "." + std::to_string(machine % 200 + 1);
}

void Star::Cut(size_t machine) const {
  switch_.Do("bridge link set dev " + Port(machine) + " state " + kOff);
}

void Star::Mend(size_t machine) const {
  switch_.Do("bridge link set dev " + Port(machine) + " state " + kForwarding);
}

uint64_t Star::BytesSent(size_t machine) const { return machines_[machine].BytesSent(kStarDevice); }

}  // namespace onecopy::testing
