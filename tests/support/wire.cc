#include "tests/support/wire.h"

#include <exception>
#include <utility>

namespace onecopy::testing {
namespace {

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

std::string Wire::Address(End end) const {
  return "10.99." + std::to_string(number_) + (end == End::kWest ? ".1" : ".2");
}

Wire::Wire(uint64_t megabits_per_second) : Wire(std::make_shared<Ends>(), 0, megabits_per_second) {}

Wire::Wire(const Wire& other, uint64_t megabits_per_second)
    : Wire(other.ends_, other.number_ + 1, megabits_per_second) {}

Wire::Wire(std::shared_ptr<const Ends> ends, int number, uint64_t megabits_per_second)
    : ends_(std::move(ends)), number_(number), device_("wire" + std::to_string(number)) {
  Namespace(End::kWest)
      .Do("ip link add " + device_ + " address " + kHardware[0] + " type veth peer name " +
          device_ + " address " + kHardware[1] + " netns " + Namespace(End::kEast).name());
  for (const End end : {End::kWest, End::kEast}) {
    const NetworkNamespace& network = Namespace(end);
    network.Do("ip address add " + Address(end) + "/24 dev " + device_);
    network.Do("ip link set " + device_ + " up");
    Mend(end);
    if (megabits_per_second == 0) continue;
    network.Do("tc qdisc add dev " + device_ + " root tbf rate " +
               std::to_string(megabits_per_second) + "mbit burst 256kb latency 200ms");
  }
  for (const End end : {End::kWest, End::kEast}) Namespace(end).WaitForLink(device_);
}

void Wire::SetNeighbour(End end, const std::string& hardware_address) const {
  Namespace(end).Do("ip neighbour replace " + Address(Other(end)) + " lladdr " + hardware_address +
                    " dev " + device_ + " nud permanent");
}

void Wire::Cut(End from) { SetNeighbour(from, kNobody); }

void Wire::Mend(End from) { SetNeighbour(from, kHardware[static_cast<size_t>(Other(from))]); }

void Wire::Cut() {
  Cut(End::kWest);
  Cut(End::kEast);
}

void Wire::Mend() {
  Mend(End::kWest);
  Mend(End::kEast);
}

}  // namespace onecopy::testing
