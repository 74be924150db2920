#include "tests/support/wire.h"

#include <exception>

namespace onecopy::testing {
namespace {

constexpr const char* kDevice = "wire0";
constexpr const char* kAddresses[] = {"10.99.0.1", "10.99.0.2"};
constexpr const char* kHardware[] = {"02:00:00:00:99:01", "02:00:00:00:99:02"};
constexpr const char* kNobody = "02:00:00:00:99:99";

Wire::End Other(Wire::End end) {
  return end == Wire::End::kWest ? Wire::End::kEast : Wire::End::kWest;
}

}  // namespace

std::string Wire::WhyNot() {
  for (const char* program : {"ip", "tc"}) {
    if (std::string why = WhyNoProgram(program); !why.empty()) return why;
  }
  try {
    const Wire wire(1000);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

const char* Wire::Address(End end) { return kAddresses[static_cast<size_t>(end)]; }

Wire::Wire(uint64_t megabits_per_second) {
  Namespace(End::kWest)
      .Do(std::string("ip link add ") + kDevice + " address " + kHardware[0] +
          " type veth peer name " + kDevice + " address " + kHardware[1] + " netns " +
          Namespace(End::kEast).name());
  for (const End end : {End::kWest, End::kEast}) {
    const NetworkNamespace& network = Namespace(end);
    network.Do(std::string("ip address add ") + Address(end) + "/24 dev " + kDevice);
    network.Do(std::string("ip link set ") + kDevice + " up");
    Mend(end);
    if (megabits_per_second == 0) continue;
    network.Do(std::string("tc qdisc add dev ") + kDevice + " root tbf rate " +
               std::to_string(megabits_per_second) + "mbit burst 256kb latency 200ms");
  }
  for (const End end : {End::kWest, End::kEast}) Namespace(end).WaitForLink(kDevice);
}

void Wire::SetNeighbour(End end, const std::string& hardware_address) const {
  Namespace(end).Do(std::string("ip neighbour replace ") + Address(Other(end)) + " lladdr " +
                    hardware_address + " dev " + kDevice + " nud permanent");
}

void Wire::Cut(End from) { SetNeighbour(from, kNobody); }

void Wire::Mend(End from) { SetNeighbour(from, kHardware[static_cast<size_t>(Other(from))]); }

}  // namespace onecopy::testing
