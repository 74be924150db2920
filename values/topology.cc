#include "onecopy/topology.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace onecopy {
namespace {

template <typename Enum, size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

constexpr Names<DeviceKind, 3> kKinds = {
    {{DeviceKind::kGpu, "gpu"}, {DeviceKind::kNic, "nic"}, {DeviceKind::kNvme, "nvme"}}};
constexpr Names<Distance, 6> kDistances = {{{Distance::kSameSwitch, "PIX"},
                                            {Distance::kSwitches, "PXB"},
                                            {Distance::kHostBridge, "PHB"},
                                            {Distance::kNumaNode, "NODE"},
                                            {Distance::kSystem, "SYS"},
                                            {Distance::kUnknown, "UNKNOWN"}}};

template <typename Enum, size_t N>
std::string_view NameIn(const Names<Enum, N>& names, Enum value) {
  for (const auto& [entry, name] : names) {
    if (entry == value) return name;
  }
  return "?";
}

template <typename Enum, size_t N>
std::optional<Enum> ParseIn(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [entry, name] : names) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

// Takes up to `most` hexadecimal digits and the mark behind them (0: the end).
bool TakeHex(std::string_view& text, size_t most, char mark, std::string& digits) {
  digits.clear();
  while (!text.empty() && std::isxdigit(static_cast<unsigned char>(text.front())) != 0) {
    digits += static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
    text.remove_prefix(1);
  }
  if (digits.empty() || digits.size() > most) return false;
  if (mark == 0) return text.empty();
  if (text.empty() || text.front() != mark) return false;
  text.remove_prefix(1);
  return true;
}

void PadOrTrim(std::string& digits, size_t least) {
  while (digits.size() > least && digits.front() == '0') digits.erase(0, 1);
  digits.insert(0, least - std::min(least, digits.size()), '0');
}

}  // namespace

std::string_view DeviceKindName(DeviceKind kind) { return NameIn(kKinds, kind); }
std::optional<DeviceKind> ParseDeviceKind(std::string_view text) { return ParseIn(kKinds, text); }

std::string_view DistanceName(Distance distance) { return NameIn(kDistances, distance); }
std::optional<Distance> ParseDistance(std::string_view text) { return ParseIn(kDistances, text); }

std::optional<std::string> NormalPciAddress(std::string_view text) {
  std::string domain = "0000";
  if (std::count(text.begin(), text.end(), ':') == 2 && !TakeHex(text, 8, ':', domain)) {
    return std::nullopt;
  }
  std::string bus;
  std::string device;
  std::string function;
  if (!TakeHex(text, 2, ':', bus) || !TakeHex(text, 2, '.', device) ||
      !TakeHex(text, 1, 0, function)) {
    return std::nullopt;
  }
  PadOrTrim(domain, 4);
  PadOrTrim(bus, 2);
  PadOrTrim(device, 2);
  return domain + ":" + bus + ":" + device + "." + function;
}

size_t Topology::PairIndex(size_t one, size_t other) const {
  if (one > other) std::swap(one, other);
  return one * (2 * devices.size() - one - 1) / 2 + (other - one - 1);
}

std::optional<size_t> Topology::Find(std::string_view name_or_address) const {
  if (name_or_address.empty()) return std::nullopt;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].name == name_or_address) return i;
  }
  const std::optional<std::string> address = NormalPciAddress(name_or_address);
  if (!address) {
    const size_t port = name_or_address.rfind(':');
    return port == std::string_view::npos ? std::nullopt : Find(name_or_address.substr(0, port));
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].address == *address) return i;
  }
  return std::nullopt;
}

Distance Topology::Claimed(size_t one, size_t other) const {
  if (one >= devices.size() || other >= devices.size()) return Distance::kUnknown;
  if (one == other) return Distance::kSameSwitch;
  const size_t index = PairIndex(one, other);
  return index < distances.size() ? distances[index] : Distance::kUnknown;
}

Distance Topology::Between(size_t one, size_t other) const {
  if (virtual_machine && one != other) return Distance::kUnknown;
  return Claimed(one, other);
}

Distance Topology::Between(std::string_view one, std::string_view other) const {
  const std::optional<size_t> first = Find(one);
  const std::optional<size_t> second = Find(other);
  return first && second ? Between(*first, *second) : Distance::kUnknown;
}

int32_t Topology::NumaNodeOf(std::string_view name_or_address) const {
  const std::optional<size_t> found = Find(name_or_address);
  return found ? devices[*found].numa_node : -1;
}

size_t Topology::NumaNodes() const {
  std::set<int32_t> nodes;
  for (const TopologyDevice& device : devices) {
    if (device.numa_node >= 0 && !virtual_machine) nodes.insert(device.numa_node);
  }
  return nodes.size();
}

int32_t Topology::CommonNumaNode(const std::vector<std::string>& names) const {
  if (virtual_machine || names.empty()) return -1;
  const int32_t node = NumaNodeOf(names.front());
  const bool common = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return NumaNodeOf(name) == node;
  });
  return common ? node : -1;
}

std::vector<std::string> Topology::PlaceThreads(const std::vector<std::string>& names,
                                                unsigned threads) const {
  std::vector<std::string> placed(threads);
  std::map<int32_t, std::string> cpus_of;
  for (const std::string& name : names) {
    const std::optional<size_t> found = Find(name);
    if (virtual_machine || !found || devices[*found].numa_node < 0) return placed;
    if (devices[*found].cpus.empty()) return placed;
    cpus_of.emplace(devices[*found].numa_node, devices[*found].cpus);
  }
  if (cpus_of.empty() || cpus_of.size() > threads) return placed;
  auto next = cpus_of.begin();
  for (std::string& one : placed) {
    one = next->second;
    if (++next == cpus_of.end()) next = cpus_of.begin();
  }
  return placed;
}

std::vector<std::vector<std::string>> MatrixRows(const Topology& topology) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> head = {"#", "DEVICE"};
  for (size_t i = 0; i < topology.devices.size(); ++i) head.push_back(std::to_string(i));
  head.insert(head.end(), {"NUMA", "CPUS"});
  rows.push_back(std::move(head));
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const TopologyDevice& device = topology.devices[i];
    std::vector<std::string> row = {std::to_string(i), device.name};
    for (size_t j = 0; j < topology.devices.size(); ++j) {
      row.emplace_back(i == j ? "X" : DistanceName(topology.Claimed(i, j)));
    }
    row.push_back(device.numa_node < 0 ? "" : std::to_string(device.numa_node));
    row.push_back(device.cpus);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace onecopy
