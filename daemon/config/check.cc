#include "daemon/config/check.h"

#include <algorithm>

#include "transport/core/duration.h"
#include "transport/core/name.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::config {
namespace {

using LineOf = std::function<uint32_t(const std::string&)>;

void CheckTls(const Tls& tls, const LineOf& line_of, Problems& problems) {
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
    problems.Add(line, "tls: " + missing + " must be set too: it takes all three files or none");
  }
}

void CheckPeers(const Config& config, const LineOf& line_of, Problems& problems) {
  const std::string own = config.name.empty() ? os::HostName() : config.name;
  for (const auto& [name, peer] : config.peers) {
    const std::string section = "peers." + name;
    const uint32_t line = line_of(section);
    if (!IsName(name)) {
      problems.Add(line,
                   section + ": a node's name must be of the form " + std::string(kNameSyntax));
    }
    if (name == own) {
      problems.Add(line, section + " has the name of this node: a node is no peer of itself");
    }
    if (!peer.address.host.empty() && peer.address.port == 0) {
      problems.Add(line, section + ": no peer is reached at port 0");
    }
  }
}

}  // namespace

void CheckWhole(const Config& config, const LineOf& line_of, Problems& problems) {
  CheckTls(config.tls, line_of, problems);
  CheckPeers(config, line_of, problems);
  if (!config.lanes && config.listen.port == UINT16_MAX) {
    problems.Add(line_of("listen"),
                 "lanes must be set: there is no port after that of listen, 65535");
  }
  if (config.lanes && config.lanes->port != 0 && *config.lanes == config.listen) {
    problems.Add(line_of("lanes"),
                 "lanes and listen must differ: both are " + config.listen.ToString());
  }
  if (config.reconnect_least > config.reconnect_most) {
    problems.Add(std::max(line_of("peering.reconnect_least"), line_of("peering.reconnect_most")),
                 "peering: reconnect_least, " + FormatDuration(config.reconnect_least) +
                     ", is longer than reconnect_most, " + FormatDuration(config.reconnect_most));
  }
}

os::HostPort Config::LanesAddress() const {
  if (lanes) return *lanes;
  const uint16_t port = listen.port == 0 ? 0 : static_cast<uint16_t>(listen.port + 1);
  return {listen.host, port};
}

Status CheckSecurity(const Config& config) {
  if (config.tls.enabled() || config.insecure) return OkStatus();
  for (const auto& [key, address] :
       {std::pair{"listen", config.listen}, std::pair{"lanes", config.LanesAddress()}}) {
    if (os::IsLoopback(address.host)) continue;
    return {Code::kFailedPrecondition, reasons::kInsecure,
            std::string(key) + " is " + address.ToString() +
                ", beyond this machine, where peers would talk in plain text",
            "set [tls] ca, certificate and key, or insecure = true where the network is trusted"};
  }
  return OkStatus();
}

}  // namespace onecopy::config
