#include "daemon/config/bind.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "daemon/config/check.h"
#include "daemon/config/check_discovery.h"
#include "daemon/config/file_user.h"
#include "daemon/config/read_section.h"
#include "daemon/config/sections.h"
#include "daemon/config/value_text.h"
#include "onecopy/size.h"
#include "transport/core/base/file_path.h"
#include "transport/core/base/name.h"

namespace onecopy::config {
namespace {

// The file's sections as they are read, with what is needed to say where something is wrong.
class Binder {
 public:
  Binder(const toml::table& file, const Schema& schema, Problems& problems)
      : file_(file), problems_(problems), specs_(Sections(schema)) {}

  Config Bind(const Schema& schema) {
    ReadTop();
    for (const SectionSpec& spec : specs_) {
      sections_[spec.name] = ReadSection(TableOf(spec.name), spec.name, spec.keys, {}, problems_);
    }
    SetOwn();
    SetDiscovery();
    ReadPeers();
    ReadExports();
    ReadShares();
    SetTexts();
    for (const std::string& library : schema.libraries) {
      config_.libraries[library] = sections_.at("libraries").settings.Text(library);
    }
    for (const auto& [name, keys] : schema.backends) {
      config_.backends[name] = sections_.at(name).settings;
    }
    CheckWhole(
        config_, [this](const std::string& key) { return LineOfKey(key); }, problems_);
    return std::move(config_);
  }

 private:
  // The section's table; null where the file does not have it, or has something else in its place.
  const toml::table* TableOf(const std::string& name) {
    const toml::node* node = file_.get(name);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) {
      const bool named = name == "peers" || name == "exports" || name == "qos";
      const std::string header = "[" + name + (named ? ".NAME]" : "]");
      problems_.Add(LineOf(*node),
                    name + " must be a section, written as " + header + ", not " + KindText(*node));
    }
    return node->as_table();
  }

  void ReadTop() {
    std::vector<std::string> elsewhere = {"version", "peers", "exports", "qos"};
    for (const SectionSpec& spec : specs_) elsewhere.push_back(spec.name);
    Section& top = sections_[""];
    top = ReadSection(&file_, "", TopKeys(), elsewhere, problems_);
    config_.name = Name("", "name");
    if (auto listen = Address("", "listen")) config_.listen = *listen;
    if (!top.settings.Text("lanes").empty()) config_.lanes = Addresses("", "lanes");
    if (!top.settings.Text("api_listen").empty()) {
      config_.api_listen = Address("", "api_listen");
    }
    if (top.settings.Text("metrics_listen") != kOff) {
      config_.metrics_listen = Address("", "metrics_listen");
    }
    config_.run_dir = top.settings.Text("run_dir");
    config_.uid_domain = Name("", "uid_domain");
    config_.insecure = top.settings.Bool("insecure");
    config_.tuned = top.settings.Text("tuned");
    config_.topology = top.settings.Text("topology");
  }

  void SetOwn() {
    const Settings& tls = sections_.at("tls").settings;
    config_.tls = {tls.Text("ca"),  tls.Text("certificate"), tls.Text("key"),
                   tls.Text("crl"), tls.Duration("reload"),  tls.Bool("lanes_plain")};
    config_.log_level = LogLevels()[Choice("log", "level", LogLevels())];
    config_.log_format = static_cast<LogFormat>(Choice("log", "format", LogFormats()));
    const Settings& audit = sections_.at("audit").settings;
    config_.audit_level = Choice("audit", "level", AuditLevels());
    config_.audit_most_per_minute = static_cast<uint32_t>(audit.Integer("most_per_minute"));
    config_.audit_file = audit.Text("file");
    const Settings& staging = sections_.at("staging").settings;
    config_.slot_bytes = staging.Bytes("slot_bytes");
    config_.slots = static_cast<uint32_t>(staging.Integer("slots"));
    const Settings& probes = sections_.at("probes").settings;
    config_.probe_bytes = probes.Bytes("bytes");
    config_.probe_share_permille = static_cast<uint32_t>(probes.Integer("share_permille"));
    config_.probe_jitter_percent = static_cast<uint32_t>(probes.Integer("jitter_percent"));
    config_.probe_wait = probes.Duration("wait");
    config_.probe_limit = probes.Duration("limit");
    config_.probe_lifetime = probes.Duration("lifetime");
    config_.probe_retry = probes.Duration("retry");
    config_.ring_spin =
        std::chrono::microseconds(sections_.at("ring").settings.Integer("spin_microseconds"));
    const Settings& transfers = sections_.at("transfers").settings;
    config_.stall_timeout = transfers.Duration("stall_timeout");
    config_.resume_for = transfers.Duration("resume_for");
    config_.drain_timeout = transfers.Duration("drain_timeout");
    config_.keep_transfers = static_cast<uint32_t>(transfers.Integer("keep"));
    const Settings& restart = sections_.at("restart").settings;
    config_.holder = restart.Text("holder");
    config_.hold_for = restart.Duration("hold_for");
    config_.reflection = sections_.at("api").settings.Bool("reflection");
    SetLimits(sections_.at("limits").settings);
    const Settings& peering = sections_.at("peering").settings;
    config_.heartbeat = peering.Duration("heartbeat");
    config_.reconnect_delay_min = peering.Duration("reconnect_delay_min");
    config_.reconnect_delay_max = peering.Duration("reconnect_delay_max");
  }

  void SetDiscovery() {
    const Settings& settings = sections_.at("discovery").settings;
    Discovery& to = config_.discovery;
    to.kind = static_cast<DiscoveryKind>(Choice("discovery", "kind", DiscoveryKinds()));
    if (!settings.Text("advertise").empty()) to.advertise = Address("discovery", "advertise");
    to.dns_name = settings.Text("dns_name");
    if (!settings.Text("dns_server").empty()) to.dns_server = Address("discovery", "dns_server");
    for (const std::string& text : settings.TextList("etcd_endpoints")) {
      const std::optional<EtcdEndpoint> endpoint = ParseEtcdEndpoint(text);
      if (endpoint) {
        to.etcd_endpoints.push_back(*endpoint);
      } else {
        // One with a user has that user's password, which is not for logs.
        const size_t user = text.rfind('@');
        Complain("discovery", "etcd_endpoints",
                 "\"" + (user == std::string::npos ? text : "..." + text.substr(user)) +
                     "\" is not a server of etcd: write https://HOST:PORT, or "
                     "http://HOST:PORT without encryption");
      }
    }
    to.etcd_prefix = settings.Text("etcd_prefix");
    if (!to.etcd_prefix.ends_with('/')) to.etcd_prefix += '/';
    to.etcd_lease = settings.Duration("etcd_lease");
    to.etcd_ca = settings.Text("etcd_ca");
    to.etcd_certificate = settings.Text("etcd_certificate");
    to.etcd_key = settings.Text("etcd_key");
    to.etcd_user = settings.Text("etcd_user");
    to.etcd_password_file = settings.Text("etcd_password_file");
  }

  void SetLimits(const Settings& limits) {
    for (const LimitKey& key : LimitKeys()) {
      const auto value = [&](const std::string& name) {
        const bool bytes = key.limit == &Limits::memory;
        return bytes ? limits.Bytes(name) : static_cast<uint64_t>(limits.Integer(name));
      };
      config_.limits.*key.limit = {value(key.name + "_per_user"), value(key.name)};
    }
    config_.limits.request_memory = limits.Duration("request_memory");
    config_.limits.arrivals_per_buffer =
        static_cast<uint32_t>(limits.Integer("arrivals_per_buffer"));
    config_.limits.health_watches = static_cast<uint32_t>(limits.Integer("health_watches"));
    config_.limits.reserved_percent = static_cast<uint32_t>(limits.Integer("reserved_percent"));
  }

  // Each section [KIND.NAME]: calls `bind` with its name and what was read of it.
  template <typename Bind>
  void ReadNamed(const std::string& kind, const std::vector<SettingSpec>& keys, const Bind& bind) {
    const toml::table* all = TableOf(kind);
    if (all == nullptr) return;
    for (const auto& [key, node] : *all) {
      const std::string name(key.str());
      const std::string section = kind + "." + name;
      if (!node.is_table()) {
        problems_.Add(LineOf(key), section + " must be a section, written as [" + section +
                                       "], not " + KindText(node));
        continue;
      }
      named_lines_[section] = LineOf(key);
      Section& read = sections_[section];
      read = ReadSection(node.as_table(), section, keys, {}, problems_);
      bind(name, section, read);
    }
  }

  void CheckName(const std::string& name, const std::string& section) {
    if (IsName(name)) return;
    problems_.Add(named_lines_.at(section),
                  section + ": a name must be of the form " + std::string(kNameSyntax));
  }

  void ReadPeers() {
    ReadNamed("peers", PeerKeys(),
              [this](const std::string& name, const std::string& section, const Section& read) {
                Peer& bound = config_.peers[name];
                if (read.Has("address") && !read.wrong.contains("address")) {
                  bound.addresses = Addresses(section, "address");
                }
                bound.create_bytes = Size(section, "create_bytes");
                if (read.Has("uid_domain")) bound.uid_domain = Name(section, "uid_domain");
              });
  }

  void ReadExports() {
    ReadNamed("exports", ExportKeys(),
              [this](const std::string& name, const std::string& section, const Section& read) {
                CheckName(name, section);
                Export& bound = config_.exports[name];
                bound.path = read.settings.Text("path");
                if (!read.Has("path")) {
                  problems_.Add(named_lines_.at(section),
                                section + ": path must be set: the folder that is exported");
                } else if (!read.wrong.contains("path") && !IsShortestPath(bound.path)) {
                  Complain(section, "path",
                           "must be an absolute path without . or .. and with single slashes, not "
                           "\"" +
                               bound.path + "\"");
                }
                bound.read = Users(section, "read");
                bound.write = Users(section, "write");
                bound.mode = Mode(section, "mode");
                bound.follow_beneath = Follow(section);
              });
  }

  void ReadShares() {
    ReadNamed("qos", ShareKeys(),
              [this](const std::string& name, const std::string& section, const Section& read) {
                CheckName(name, section);
                Share& bound = config_.shares[name];
                bound.users = Users(section, "users");
                bound.nodes = Nodes(section, "nodes");
                if (read.Has("weight")) {
                  bound.weight = static_cast<uint32_t>(read.settings.Integer("weight"));
                }
                if (read.Has("rate_limit")) {
                  bound.rate_limit_bytes_per_second = read.settings.Bytes("rate_limit");
                  CheckRateLimit(section, *bound.rate_limit_bytes_per_second);
                }
                if (read.Has("priority")) {
                  bound.priority = ParsePriority(read.settings.Text("priority"));
                }
                if (!read.Has("weight") && !read.Has("rate_limit") && !read.Has("priority")) {
                  problems_.Add(named_lines_.at(section),
                                section + ": weight, rate_limit or priority must be set");
                }
                const bool wrong = read.wrong.contains("users") || read.wrong.contains("nodes");
                if (wrong || !read.settings.Text("users").empty() ||
                    !read.settings.Text("nodes").empty()) {
                  return;
                }
                problems_.Add(
                    named_lines_.at(section),
                    section + ": users or nodes must be set: the section applies to them");
              });
  }

  void CheckRateLimit(const std::string& section, uint64_t bytes_per_second) {
    if (bytes_per_second == 0 || bytes_per_second >= kMinRateLimitBytesPerSecond) return;
    Complain(section, "rate_limit",
             "must be at least " + FormatBytes(kMinRateLimitBytesPerSecond) +
                 ", or 0 for no limit, not " + FormatBytes(bytes_per_second));
  }

  std::vector<std::string> Nodes(const std::string& section, const std::string& key) {
    std::vector<std::string> nodes;
    std::istringstream words(sections_.at(section).settings.Text(key));
    for (std::string word; words >> word;) {
      if (IsNodePattern(word)) {
        nodes.push_back(word);
      } else {
        Complain(
            section, key,
            "\"" + word +
                "\" is not a node: write names, or patterns with * and ?, separated by blanks");
      }
    }
    return nodes;
  }

  uint32_t Mode(const std::string& section, const std::string& key) {
    const std::string& text = sections_.at(section).settings.Text(key);
    const std::optional<uint32_t> mode = ParseFileMode(text);
    if (mode) return *mode;
    Complain(section, key,
             "must be an octal mode of at most 0777 that lets the owner read and write, as "
             "\"0640\", not \"" +
                 text + "\"");
    return 0;
  }

  bool Follow(const std::string& section) {
    const std::string& text = sections_.at(section).settings.Text("follow");
    if (text != "none" && text != "beneath") {
      Complain(section, "follow", "must be \"none\" or \"beneath\", not \"" + text + "\"");
    }
    return text == "beneath";
  }

  std::vector<FileUser> Users(const std::string& section, const std::string& key) {
    std::vector<FileUser> users;
    std::istringstream words(sections_.at(section).settings.Text(key));
    for (std::string word; words >> word;) {
      const std::optional<FileUser> user = ParseFileUser(word);
      if (user) {
        users.push_back(*user);
      } else {
        Complain(section, key,
                 "\"" + word +
                     "\" is not a user: write UID@NODE, *@NODE, or UID for a user of this node, "
                     "separated by blanks");
      }
    }
    return users;
  }

  void SetTexts() {
    const auto set = [this](const std::string& section, const std::vector<SettingSpec>& specs) {
      const Settings& settings = sections_.at(section).settings;
      for (const SettingSpec& spec : specs) {
        config_.texts[KeyText(section, spec.key)] =
            ValueText(spec.type, settings.values().at(spec.key));
      }
    };
    set("", TopKeys());
    for (const SectionSpec& spec : specs_) set(spec.name, spec.keys);
    for (const auto& [name, peer] : config_.peers) set("peers." + name, PeerKeys());
    for (const auto& [name, one] : config_.exports) set("exports." + name, ExportKeys());
    for (const auto& [name, one] : config_.shares) set("qos." + name, ShareKeys());
  }

  uint32_t LineOfKey(const std::string& key) const {
    if (const auto peer = named_lines_.find(key); peer != named_lines_.end()) return peer->second;
    const size_t point = key.find('.');
    if (point == std::string::npos) return sections_.at("").LineOf(key);
    return sections_.at(key.substr(0, point)).LineOf(key.substr(point + 1));
  }

  void Complain(const std::string& section, const std::string& key, const std::string& why) {
    problems_.Add(sections_.at(section).LineOf(key), KeyText(section, key) + ": " + why);
  }

  // A text that is empty or of the syntax of names.
  std::string Name(const std::string& section, const std::string& key) {
    const std::string& text = sections_.at(section).settings.Text(key);
    if (!text.empty() && !IsName(text)) {
      Complain(section, key, "must be of the form " + std::string(kNameSyntax) + ", not " + text);
    }
    return text;
  }

  // A text that is empty or a size.
  std::optional<uint64_t> Size(const std::string& section, const std::string& key) {
    const std::string& text = sections_.at(section).settings.Text(key);
    if (text.empty()) return std::nullopt;
    const Result<uint64_t> bytes = ParseBytes(text);
    if (bytes.ok()) return *bytes;
    Complain(section, key, bytes.status().message() + "; " + bytes.status().remedy());
    return std::nullopt;
  }

  std::optional<os::HostPort> Address(const std::string& section, const std::string& key) {
    Result<os::HostPort> address = os::ParseHostPort(sections_.at(section).settings.Text(key));
    if (address.ok()) return *address;
    Complain(section, key, address.status().message() + "; " + address.status().remedy());
    return std::nullopt;
  }

  std::vector<os::HostPort> Addresses(const std::string& section, const std::string& key) {
    auto addresses = os::ParseHostPorts(sections_.at(section).settings.Text(key));
    if (addresses.ok()) return *addresses;
    Complain(section, key, addresses.status().message() + "; " + addresses.status().remedy());
    return {};
  }

  // The index of one of a few words.
  size_t Choice(const std::string& section, const std::string& key,
                const std::vector<std::string>& words) {
    const std::string& text = sections_.at(section).settings.Text(key);
    const auto found = std::find(words.begin(), words.end(), text);
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
    Complain(section, key, "must be one of " + list + ", not " + text + DidYouMean(text, words));
    return 0;
  }

  const toml::table& file_;
  Problems& problems_;
  const std::vector<SectionSpec> specs_;
  std::map<std::string, Section> sections_;  // as read, by name; "" is the top of the file
  std::map<std::string, uint32_t> named_lines_;
  Config config_;
};

}  // namespace

Config Bind(const toml::table& file, const Schema& schema, Problems& problems) {
  return Binder(file, schema, problems).Bind(schema);
}

}  // namespace onecopy::config
