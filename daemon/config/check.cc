#include "daemon/config/check.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/config/check_discovery.h"
#include "daemon/config/file_user.h"
#include "daemon/config/sections.h"
#include "onecopy/reasons.h"
#include "transport/core/base/duration.h"
#include "transport/core/base/name.h"
#include "transport/core/contracts/link.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/resolve.h"

namespace onecopy::config {
namespace {

using KeyLines = std::function<uint32_t(const std::string&)>;

void CheckTls(const Tls& tls, const KeyLines& line_of, Problems& problems) {
  std::string missing;
  uint32_t line = 0;
  bool any = false;
  for (const auto& [key, value] : {std::pair<std::string, const std::string&>{"ca", tls.ca},
                                   {"certificate", tls.certificate},
                                   {"key", tls.key}}) {
    if (value.empty()) {
      missing += (missing.empty() ? "" : " and ") + key;
    } else {
      any = true;
      line = std::max(line, line_of("tls." + key));
    }
  }
  if (any && !missing.empty()) {
    problems.Add(line, "tls: " + missing + " must be set too: set all three files, or none");
  }
  for (const char* key : {"crl", "lanes_plain"}) {
    const bool set = std::string_view(key) == "crl" ? !tls.crl.empty() : tls.lanes_plain;
    if (any || !set) continue;
    problems.Add(line_of(std::string("tls.") + key),
                 "tls: " + std::string(key) + " has no effect without ca, certificate and key");
  }
}

// Several are tried beside each other, so none of them may be a name that takes long to look up,
// and gRPC takes those of one family.
void CheckAddresses(const std::vector<os::HostPort>& addresses, const std::string& section,
                    uint32_t line, Problems& problems) {
  size_t of_ipv6 = 0;
  for (const os::HostPort& address : addresses) {
    if (address.port == 0) problems.Add(line, section + ": port 0 cannot be connected to");
    if (address.host.find(':') != std::string::npos) ++of_ipv6;
    if (addresses.size() > 1 && !os::IsAddress(address.host)) {
      problems.Add(
          line, section + ": of several addresses each must be an IP address, not " + address.host);
    }
  }
  if (of_ipv6 > 0 && of_ipv6 < addresses.size()) {
    problems.Add(line, section + ": all addresses must be of IPv4, or all of IPv6");
  }
}

void CheckPeers(const Config& config, const KeyLines& line_of, Problems& problems) {
  const std::string own = config.name.empty() ? os::HostName() : config.name;
  for (const auto& [name, peer] : config.peers) {
    const std::string section = "peers." + name;
    const uint32_t line = line_of(section);
    const bool pattern = name.find_first_of("*?") != std::string::npos;
    if (pattern ? !IsNodePattern(name) : !IsName(name)) {
      problems.Add(line, section + ": a node's name must be of the form " +
                             std::string(kNameSyntax) +
                             ", and a pattern likewise, with * for any characters and ? for one");
    }
    if (pattern && !peer.addresses.empty()) {
      problems.Add(line, section + " is a pattern, and a pattern has no address");
    }
    if (name == own) {
      problems.Add(line, section + " has the name of this node: a node cannot be its own peer");
    }
    CheckAddresses(peer.addresses, section, line, problems);
  }
}

// Each way by which bytes of this daemon leave the machine, as "listen is 0.0.0.0:7701".
std::vector<std::string> BeyondThisMachine(const Config& config) {
  std::vector<std::string> beyond;
  const auto look = [&](const std::string& what, const os::HostPort& address) {
    if (!os::IsLoopback(address.host)) beyond.push_back(what + " is " + address.ToString());
  };
  look("listen", config.listen);
  for (const os::HostPort& address : config.LanesAddresses()) look("lanes", address);
  for (const auto& [name, peer] : config.peers) {
    for (const os::HostPort& address : peer.addresses) {
      look("the address of peer " + name, address);
    }
  }
  return beyond;
}

void CheckLimits(const Limits& limits, const KeyLines& line_of, Problems& problems) {
  for (const LimitKey& key : LimitKeys()) {
    const Limit& limit = limits.*key.limit;
    if (limit.each <= limit.total) continue;
    const std::string each = key.name + "_per_user";
    problems.Add(std::max(line_of("limits." + each), line_of("limits." + key.name)),
                 "limits: " + each + ", " + std::to_string(limit.each) + ", exceeds " + key.name +
                     ", " + std::to_string(limit.total) + ", the limit of all users together");
  }
}

// What listens at `address` beside peers and lanes.
void CheckApart(const std::string& name, const os::HostPort& address, const Config& config,
                uint32_t line, Problems& problems) {
  if (address.port == 0) return;
  const auto differ = [&](const char* other) {
    problems.Add(line, name + " and " + other + " must differ: both are " + address.ToString());
  };
  if (address == config.listen) differ("listen");
  const std::vector<os::HostPort> lanes = config.LanesAddresses();
  if (std::find(lanes.begin(), lanes.end(), address) != lanes.end()) differ("lanes");
}

void CheckLanes(const Config& config, const KeyLines& line_of, Problems& problems) {
  if (config.lanes.empty() && config.listen.port == UINT16_MAX) {
    problems.Add(line_of("listen"), "lanes must be set: listen has the last port, 65535");
  }
  if (config.lanes.size() > kMaxLaneAddresses) {
    problems.Add(line_of("lanes"), "lanes has " + std::to_string(config.lanes.size()) +
                                       " addresses, more than " +
                                       std::to_string(kMaxLaneAddresses));
  }
  for (const os::HostPort& lanes : config.lanes) {
    if (lanes.port != 0 && lanes == config.listen) {
      problems.Add(line_of("lanes"),
                   "lanes and listen must differ: both are " + config.listen.ToString());
    }
    if (config.lanes.size() > 1 && (lanes.host == "0.0.0.0" || lanes.host == "::")) {
      problems.Add(line_of("lanes"), "lanes: " + lanes.host +
                                         " means any address of this machine, so it must be the "
                                         "only one: list the addresses instead");
    }
  }
}

void CheckApi(const Config& config, const KeyLines& line_of, Problems& problems) {
  if (!config.api_listen) return;
  const uint32_t line = line_of("api_listen");
  if (!config.tls.enabled()) {
    problems.Add(line,
                 "api_listen needs [tls] ca, certificate and key: callers from other machines are "
                 "identified only by certificates");
  }
  CheckApart("api_listen", *config.api_listen, config, line, problems);
}

void CheckMetrics(const Config& config, const KeyLines& line_of, Problems& problems) {
  if (!config.metrics_listen) return;
  const uint32_t line = line_of("metrics_listen");
  const os::HostPort& metrics = *config.metrics_listen;
  if (!os::IsLoopback(metrics.host) && !config.tls.enabled()) {
    problems.Add(line, "metrics_listen is " + metrics.ToString() +
                           ", which other machines reach, and [tls] is not set: metrics would be "
                           "plain text for everyone. Set [tls] ca, certificate and key, or use a "
                           "loopback address");
  }
  CheckApart("metrics_listen", metrics, config, line, problems);
}

void CheckHolder(const std::string& holder, const KeyLines& line_of, Problems& problems) {
  if (holder == kOff || holder == kOwn || holder.starts_with('/')) return;
  problems.Add(
      line_of("restart.holder"),
      "restart.holder must be \"off\", \"own\" or an absolute path, not \"" + holder + "\"");
}

}  // namespace

void CheckWhole(const Config& config, const KeyLines& line_of, Problems& problems) {
  CheckTls(config.tls, line_of, problems);
  CheckPeers(config, line_of, problems);
  CheckLimits(config.limits, line_of, problems);
  CheckApi(config, line_of, problems);
  CheckMetrics(config, line_of, problems);
  CheckHolder(config.holder, line_of, problems);
  CheckDiscovery(config, line_of, problems);
  CheckLanes(config, line_of, problems);
  if (config.reconnect_delay_min > config.reconnect_delay_max) {
    problems.Add(
        std::max(line_of("peering.reconnect_delay_min"), line_of("peering.reconnect_delay_max")),
        "peering: reconnect_delay_min, " + FormatDuration(config.reconnect_delay_min) +
            ", is longer than reconnect_delay_max, " + FormatDuration(config.reconnect_delay_max));
  }
}

std::vector<os::HostPort> Config::LanesAddresses() const {
  if (!lanes.empty()) return lanes;
  const uint16_t port = listen.port == 0 ? 0 : static_cast<uint16_t>(listen.port + 1);
  return {{listen.host, port}};
}

Status CheckSecurity(const Config& config) {
  if (config.tls.enabled() || config.insecure) return OkStatus();
  const std::vector<std::string> beyond = BeyondThisMachine(config);
  if (beyond.empty()) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kInsecure,
          beyond.front() + ", which other machines can reach, and the daemons would use plain text",
          "set [tls] ca, certificate and key (onecopy cert makes them), or insecure = true if you "
          "trust the network"};
}

}  // namespace onecopy::config
