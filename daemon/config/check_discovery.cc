#include "daemon/config/check_discovery.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/config/sections.h"
#include "daemon/config/value_text.h"
#include "transport/os/sockets/resolve.h"

namespace onecopy::config {
namespace {

using KeyLine = std::function<uint32_t(const std::string&)>;

constexpr size_t kMaxEndpoints = 16;
constexpr size_t kMaxPrefix = 256;
// RFC 1035.
constexpr size_t kMaxDnsName = 253;
constexpr size_t kMaxLabel = 63;

// The beginnings of the keys that count for one kind only.
constexpr std::array<std::pair<std::string_view, DiscoveryKind>, 2> kKinds = {
    {{"dns_", DiscoveryKind::kDns}, {"etcd_", DiscoveryKind::kEtcd}}};

bool IsDnsName(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > kMaxDnsName) return false;
  while (true) {
    const size_t point = std::min(name.find('.'), name.size());
    const std::string_view label = name.substr(0, point);
    const bool plain = std::all_of(label.begin(), label.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    });
    if (label.empty() || label.size() > kMaxLabel || !plain) return false;
    if (point == name.size()) return true;
    name.remove_prefix(point + 1);
  }
}

// A name as DNS servers write it, which tell no capitals from others, in one part.
bool IsLabel(std::string_view name) {
  return name.size() <= kMaxLabel && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

bool IsUnspecified(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

class Checker {
 public:
  Checker(const Config& config, const KeyLine& line_of, Problems& problems)
      : config_(config), discovery_(config.discovery), line_of_(line_of), problems_(problems) {}

  void Check() {
    CheckOtherKinds();
    CheckAdvertise();
    if (discovery_.kind == DiscoveryKind::kDns) CheckDns();
    if (discovery_.kind == DiscoveryKind::kEtcd) CheckEtcd();
  }

 private:
  void Add(const std::string& key, const std::string& what) {
    const uint32_t line = line_of_("discovery." + key);
    problems_.Add(line == 0 ? line_of_("discovery.kind") : line, "discovery." + key + ": " + what);
  }

  void CheckOtherKinds() {
    const std::string kind = DiscoveryKinds()[static_cast<size_t>(discovery_.kind)];
    for (const SectionSpec& section : Sections({})) {
      if (section.name != "discovery") continue;
      for (const SettingSpec& spec : section.keys) {
        for (const auto& [start, of] : kKinds) {
          const auto text = config_.texts.find("discovery." + spec.key);
          const bool set =
              text != config_.texts.end() && text->second != ValueText(spec.type, spec.fallback);
          if (!set || !spec.key.starts_with(start) || of == discovery_.kind) continue;
          Add(spec.key, "has no effect with kind = \"" + kind + "\": remove it, or set kind = \"" +
                            DiscoveryKinds()[static_cast<size_t>(of)] + "\"");
        }
      }
    }
  }

  void CheckAdvertise() {
    if (discovery_.advertise) {
      if (discovery_.kind == DiscoveryKind::kStatic) {
        Add("advertise", "has no effect with kind = \"static\": remove it, or set another kind");
      } else if (discovery_.advertise->port == 0 || IsUnspecified(discovery_.advertise->host)) {
        Add("advertise", "must be an address that other nodes can connect to, not " +
                             discovery_.advertise->ToString());
      }
    } else if (discovery_.kind == DiscoveryKind::kEtcd && IsUnspecified(config_.listen.host)) {
      Add("advertise", "must be set, because other nodes cannot connect to " +
                           config_.listen.ToString() +
                           " (listen): set it to this node's HOST:PORT");
    }
  }

  void CheckDns() {
    if (discovery_.dns_name.empty()) {
      return Add("dns_name", "must be set with kind = \"dns\", as \"_onecopy._tcp.example.com\"");
    }
    if (!IsDnsName(discovery_.dns_name)) {
      return Add("dns_name", "\"" + discovery_.dns_name + "\" is not a DNS name");
    }
    if (!discovery_.dns_name.starts_with('_') && !config_.tls.enabled()) {
      Add("dns_name", "\"" + discovery_.dns_name +
                          "\" has addresses but no nodes' names, so [tls] must be set: a node's "
                          "name is then that of its certificate. Or use a name with SRV records, "
                          "as \"_onecopy._tcp." +
                          discovery_.dns_name + "\"");
    }
    if (discovery_.dns_name.starts_with('_') && !IsLabel(config_.name)) {
      Add("dns_name",
          "the name \"" + config_.name +
              "\" of this node cannot be found by SRV records, whose targets begin with "
              "a node's name: choose one of a-z, 0-9 and - with 63 characters at most");
    }
    if (discovery_.dns_server && (!os::IsAddress(discovery_.dns_server->host) ||
                                  discovery_.dns_server->host.find(':') != std::string::npos ||
                                  discovery_.dns_server->port == 0)) {
      Add("dns_server", "must be an IPv4 address and a port, as \"10.0.0.2:53\", not " +
                            discovery_.dns_server->ToString());
    }
  }

  void CheckEtcd() {
    const std::vector<EtcdEndpoint>& endpoints = discovery_.etcd_endpoints;
    if (endpoints.empty() || endpoints.size() > kMaxEndpoints) {
      Add("etcd_endpoints", "must name 1 to " + std::to_string(kMaxEndpoints) +
                                " servers with kind = \"etcd\", as [\"https://10.0.0.1:2379\"]");
    }
    const bool tls = std::any_of(endpoints.begin(), endpoints.end(),
                                 [](const EtcdEndpoint& one) { return one.tls; });
    const bool plain = std::any_of(endpoints.begin(), endpoints.end(),
                                   [](const EtcdEndpoint& one) { return !one.tls; });
    if (tls && plain) Add("etcd_endpoints", "must be all https or all http");
    if (tls && discovery_.etcd_ca.empty()) {
      Add("etcd_ca", "must be set with https: the file of the CA of etcd's servers");
    }
    for (const auto& [key, value] :
         {std::pair<std::string, const std::string&>{"etcd_ca", discovery_.etcd_ca},
          {"etcd_certificate", discovery_.etcd_certificate}}) {
      if (!tls && !value.empty()) Add(key, "has no effect without https in etcd_endpoints");
    }
    CheckBoth("etcd_certificate", discovery_.etcd_certificate, "etcd_key", discovery_.etcd_key);
    CheckBoth("etcd_user", discovery_.etcd_user, "etcd_password_file",
              discovery_.etcd_password_file);
    const bool network = std::any_of(
        endpoints.begin(), endpoints.end(),
        [](const EtcdEndpoint& one) { return !one.tls && !os::IsLoopback(one.where.host); });
    if (network && !config_.insecure) {
      Add("etcd_endpoints",
          "http sends everything in plain text, a password too, and lets anyone on the way change "
          "addresses: use https, or set insecure = true if you trust the network");
    }
    if (discovery_.etcd_prefix.size() > kMaxPrefix || discovery_.etcd_prefix == "/") {
      Add("etcd_prefix", "must be a path of at most " + std::to_string(kMaxPrefix) +
                             " bytes, as \"/onecopy/nodes/\"");
    }
  }

  void CheckBoth(const std::string& one, const std::string& value, const std::string& other,
                 const std::string& other_value) {
    if (value.empty() == other_value.empty()) return;
    Add(value.empty() ? other : one,
        "needs " + (value.empty() ? one : other) + ": set both, or neither");
  }

  const Config& config_;
  const Discovery& discovery_;
  const KeyLine& line_of_;
  Problems& problems_;
};

}  // namespace

std::optional<EtcdEndpoint> ParseEtcdEndpoint(std::string_view text) {
  constexpr std::string_view kHttps = "https://";
  constexpr std::string_view kHttp = "http://";
  EtcdEndpoint endpoint;
  endpoint.tls = text.starts_with(kHttps);
  if (!endpoint.tls && !text.starts_with(kHttp)) return std::nullopt;
  text.remove_prefix(endpoint.tls ? kHttps.size() : kHttp.size());
  if (text.find('/') != std::string_view::npos) return std::nullopt;
  const Result<os::HostPort> where = os::ParseHostPort(text);
  if (!where.ok() || where->port == 0 || IsUnspecified(where->host)) return std::nullopt;
  endpoint.where = *where;
  return endpoint;
}

void CheckDiscovery(const Config& config, const KeyLine& line_of, Problems& problems) {
  Checker(config, line_of, problems).Check();
}

}  // namespace onecopy::config
