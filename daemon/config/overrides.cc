#include <set>

#include "daemon/config/check.h"
#include "daemon/config/config.h"
#include "daemon/config/problems.h"
#include "daemon/config/sections.h"
#include "daemon/config/value_text.h"
#include "transport/core/base/name.h"
#include "transport/os/machine/machine.h"

namespace onecopy::config {
namespace {

std::optional<os::HostPort> Address(const std::string& flag, const std::string& text,
                                    Problems& problems) {
  Result<os::HostPort> address = os::ParseHostPort(text);
  if (address.ok()) return *address;
  problems.Add(0, flag + ": " + address.status().message() + "; " + address.status().remedy());
  return std::nullopt;
}

std::optional<std::vector<os::HostPort>> Addresses(const std::string& flag, const std::string& text,
                                                   Problems& problems) {
  auto addresses = os::ParseHostPorts(text);
  if (addresses.ok()) return *addresses;
  problems.Add(0, flag + ": " + addresses.status().message() + "; " + addresses.status().remedy());
  return std::nullopt;
}

void SetText(const std::string& key, const std::string& value, Config& config) {
  config.texts[key] = ValueText(SettingType::kText, value);
}

void SetPeers(const std::vector<std::string>& flags, Config& config, Problems& problems) {
  std::set<std::string> set;
  for (const std::string& flag : flags) {
    const size_t equals = flag.find('=');
    const std::string name = flag.substr(0, equals);
    if (equals == std::string::npos || !IsName(name)) {
      problems.Add(0, "--peer " + flag + ": must be NAME=HOST:PORT, such as west=10.0.0.2:7701");
      continue;
    }
    const auto addresses = Addresses("--peer " + name, flag.substr(equals + 1), problems);
    if (!addresses) continue;
    if (!set.insert(name).second) problems.Add(0, "--peer " + name + " is given twice");
    config.peers[name].addresses = *addresses;
    SetText("peers." + name + ".address", os::ToString(*addresses), config);
  }
}

}  // namespace

Status Apply(const Overrides& overrides, Config& config) {
  Problems problems;
  if (overrides.name) config.name = *overrides.name;
  if (overrides.listen) {
    if (auto listen = Address("--listen", *overrides.listen, problems)) config.listen = *listen;
    SetText("listen", *overrides.listen, config);
  }
  if (overrides.lanes) {
    if (auto lanes = Addresses("--lanes", *overrides.lanes, problems)) config.lanes = *lanes;
    SetText("lanes", *overrides.lanes, config);
  }
  if (overrides.metrics_listen) {
    config.metrics_listen.reset();
    if (*overrides.metrics_listen != kOff) {
      config.metrics_listen = Address("--metrics-listen", *overrides.metrics_listen, problems);
    }
    SetText("metrics_listen", *overrides.metrics_listen, config);
  }
  if (overrides.run_dir) {
    config.run_dir = *overrides.run_dir;
    SetText("run_dir", *overrides.run_dir, config);
  }
  if (overrides.holder) {
    config.holder = *overrides.holder;
    SetText("restart.holder", *overrides.holder, config);
  }
  SetPeers(overrides.peers, config, problems);

  const bool named = !config.name.empty();
  if (!named) config.name = os::HostName();
  if (!IsName(config.name)) {
    problems.Add(0, (named ? "the name \"" : "the host name \"") + config.name +
                        "\" cannot be a node's, which is of the form " + std::string(kNameSyntax) +
                        ": choose one with --name");
  }
  SetText("name", config.name, config);
  CheckWhole(
      config, [](const std::string&) { return 0; }, problems);
  return problems.ToStatus({});
}

}  // namespace onecopy::config
