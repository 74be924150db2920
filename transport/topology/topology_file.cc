#include "transport/topology/topology_file.h"

#include <fcntl.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"
#include "transport/topology/discover.h"

namespace onecopy {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxText = 256;
constexpr int64_t kMaxNumaNode = 4095;

template <typename Located>
uint32_t LineOf(const Located& located) {
  return static_cast<uint32_t>(located.source().begin.line);
}

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Result<Topology> Read(const toml::table& table) {
    const toml::node* version = table.get("version");
    if (version == nullptr || version->value_exact<int64_t>() != kVersion) {
      Complain(version == nullptr ? 1 : LineOf(*version),
               "version must be " + std::to_string(kVersion));
      return Done();
    }
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (name == "version") continue;
      if (name == "default_distance") {
        if (const auto distance = ReadDistance(node, name)) default_ = *distance;
      } else if (name != "device" && name != "distance") {
        Complain(LineOf(key), name +
                                  " is not a key of this file; its keys are version, "
                                  "default_distance, [[device]] and [[distance]]");
      }
    }
    ForEach(table, "device", [this](const toml::table& entry) { ReadDevice(entry); });
    topology_.distances.assign(Topology::PairCount(topology_.devices.size()), default_);
    ForceEmulatedUnknown();
    ForEach(table, "distance", [this](const toml::table& entry) { ReadPair(entry); });
    topology_.source = file_;
    return Done();
  }

  void Complain(uint32_t line, const std::string& what) {
    problems_.emplace(line, file_ + ":" + std::to_string(line) + ": " + what);
  }

  Result<Topology> Done() {
    if (problems_.empty()) return std::move(topology_);
    std::string text;
    for (const auto& [line, problem] : problems_) text += (text.empty() ? "" : "\n") + problem;
    return Status(Code::kInvalidArgument, reasons::kBadConfig, std::move(text),
                  "transport/topology/README.md describes the file");
  }

 private:
  template <typename Each>
  void ForEach(const toml::table& table, const std::string& name, Each each) {
    const toml::node* node = table.get(name);
    if (node == nullptr) return;
    const toml::array* entries = node->as_array();
    if (entries == nullptr) {
      Complain(LineOf(*node), name + " must be written as [[" + name + "]]");
      return;
    }
    for (const toml::node& entry : *entries) {
      if (const toml::table* fields = entry.as_table()) {
        each(*fields);
      } else {
        Complain(LineOf(entry), name + " must be written as [[" + name + "]]");
      }
    }
  }

  // Complains of keys that the section does not have.
  void CheckKeys(const toml::table& table, const std::string& section,
                 const std::set<std::string>& known) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (!known.contains(name)) Complain(LineOf(key), section + " has no key " + name);
    }
  }

  std::string Text(const toml::table& table, const std::string& key) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return {};
    const auto text = node->value_exact<std::string>();
    if (!text || text->empty() || text->size() > kMaxText) {
      Complain(LineOf(*node),
               key + " must be a text of 1 to " + std::to_string(kMaxText) + " characters");
      return {};
    }
    return *text;
  }

  std::optional<Distance> ReadDistance(const toml::node& node, const std::string& key) {
    const auto text = node.value_exact<std::string>();
    const auto distance = text ? ParseDistance(*text) : std::nullopt;
    if (!distance) Complain(LineOf(node), key + " must be PIX, PXB, PHB, NODE, SYS or UNKNOWN");
    return distance;
  }

  void ReadDevice(const toml::table& entry) {
    CheckKeys(entry, "device", {"kind", "name", "address", "numa_node", "cpus", "emulated"});
    TopologyDevice device;
    const std::string kind = Text(entry, "kind");
    if (const auto parsed = ParseDeviceKind(kind)) {
      device.kind = *parsed;
    } else {
      const toml::node* node = entry.get("kind");
      Complain(node == nullptr ? LineOf(entry) : LineOf(*node), "kind must be gpu, nic or nvme");
    }
    const std::string address = Text(entry, "address");
    if (const auto normal = NormalPciAddress(address)) {
      device.address = *normal;
    } else if (!address.empty()) {
      Complain(LineOf(*entry.get("address")),
               "address must be a PCI address such as 0000:1b:00.0, not " + address);
    }
    device.name = Text(entry, "name");
    if (device.name.empty()) device.name = device.address;
    device.cpus = Text(entry, "cpus");
    if (const toml::node* node = entry.get("numa_node")) {
      const auto number = node->value_exact<int64_t>();
      if (!number || *number < -1 || *number > kMaxNumaNode) {
        Complain(LineOf(*node),
                 "numa_node must be a number from -1 to " + std::to_string(kMaxNumaNode));
      } else {
        device.numa_node = static_cast<int32_t>(*number);
      }
    }
    if (const toml::node* node = entry.get("emulated")) {
      const auto flag = node->value_exact<bool>();
      if (!flag) Complain(LineOf(*node), "emulated must be true or false");
      device.emulated = flag.value_or(false);
    }
    Keep(std::move(device), LineOf(entry));
  }

  void Keep(TopologyDevice device, uint32_t line) {
    if (device.name.empty()) {
      Complain(line, "a device needs a name or an address");
    } else if (topology_.Find(device.name)) {
      Complain(line, "there is a device " + device.name + " already");
    } else if (topology_.devices.size() == Topology::kMaxDevices) {
      Complain(line, "there are more than " + std::to_string(Topology::kMaxDevices) + " devices");
    } else {
      topology_.devices.push_back(std::move(device));
    }
  }

  // A device that is software is near to nothing, whatever the default is.
  void ForceEmulatedUnknown() {
    for (size_t i = 0; i < topology_.devices.size(); ++i) {
      for (size_t j = i + 1; j < topology_.devices.size(); ++j) {
        if (topology_.devices[i].emulated || topology_.devices[j].emulated) {
          topology_.distances[topology_.PairIndex(i, j)] = Distance::kUnknown;
        }
      }
    }
  }

  void ReadPair(const toml::table& entry) {
    CheckKeys(entry, "distance", {"between", "is"});
    const toml::node* between = entry.get("between");
    const toml::node* is = entry.get("is");
    if (between == nullptr || is == nullptr) {
      Complain(LineOf(entry), "a distance needs `between` and `is`");
      return;
    }
    const auto distance = ReadDistance(*is, "is");
    const toml::array* names = between->as_array();
    if (names == nullptr || names->size() != 2) {
      Complain(LineOf(*between), "between must be a list of two names or addresses");
      return;
    }
    std::array<std::optional<size_t>, 2> found;
    for (size_t i = 0; i < 2; ++i) {
      const std::string name = names->get(i)->value_exact<std::string>().value_or("");
      found[i] = topology_.Find(name);
      if (!found[i]) Complain(LineOf(*between), "there is no device \"" + name + "\" above");
    }
    if (!found[0] || !found[1] || !distance) return;
    if (*found[0] == *found[1]) {
      Complain(LineOf(*between), "between must name two different devices");
      return;
    }
    topology_.distances[topology_.PairIndex(*found[0], *found[1])] = *distance;
  }

  const std::string file_;
  std::multimap<uint32_t, std::string> problems_;
  Distance default_ = Distance::kUnknown;
  Topology topology_;
};

Result<std::string> ReadFile(const std::string& file) {
  const std::string what = "topology file " + file;
  const os::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return os::ErrnoStatus(errno, what, "correct `topology` in the configuration");
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os::ErrnoStatus(errno, what);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > kMaxBytes) {
      return Status(Code::kInvalidArgument, reasons::kBadConfig,
                    what + " is longer than " + FormatBytes(kMaxBytes) +
                        ", so it is not a configuration file",
                    "correct `topology` in the configuration");
    }
  }
}

}  // namespace

Result<Topology> ParseTopologyFile(std::string_view text, const std::string& file) {
  Reader reader(file);
  try {
    return reader.Read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    reader.Complain(LineOf(error), std::string(error.description()));
  }
  return reader.Done();
}

Result<Topology> LoadTopologyFile(const std::string& file) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  return ParseTopologyFile(text, file);
}

Result<Topology> LoadTopology(const std::string& file) {
  return file.empty() ? DiscoverTopology() : LoadTopologyFile(file);
}

}  // namespace onecopy
