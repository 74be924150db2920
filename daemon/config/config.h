// The daemon's configuration: one TOML file, then flags. Plain values, read once at the start.
//
//   Load or Defaults -> Apply (flags) -> CheckSecurity -> the daemon
//
// Everything here may be used on any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/pacing.h"
#include "onecopy/result.h"
#include "transport/core/base/settings.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::config {

// PEM files. Either the first three are set or none.
struct Tls {
  std::string ca;
  std::string certificate;
  std::string key;
  std::string crl;                      // empty: no certificate is revoked
  std::chrono::milliseconds reload{0};  // how often they are read again; 0: when told to
  bool lanes_plain = false;             // the tcp link's lanes may be plain text anyway

  bool enabled() const { return !ca.empty(); }
  friend bool operator==(const Tls&, const Tls&) = default;
};

// One node, or, where its name is a pattern with * and ?, several.
struct Peer {
  std::vector<os::HostPort> addresses;    // none: it calls, and is not called before
  std::optional<std::string> uid_domain;  // absent: none, but this node's own on this machine
  std::optional<uint64_t> create_bytes;   // absent: see engine::PeerOptions

  friend bool operator==(const Peer&, const Peer&) = default;
};

// Users that a section says something of.
struct FileUser {
  std::optional<uint32_t> uid;  // absent: all users
  std::string node;             // or a pattern; empty: this node

  friend bool operator==(const FileUser&, const FileUser&) = default;
};

// A folder whose files users of other nodes may read.
struct Export {
  std::string path;
  std::vector<FileUser> read;
  std::vector<FileUser> write;
  uint32_t mode = 0;  // of a new file
  bool follow_beneath = false;

  friend bool operator==(const Export&, const Export&) = default;
};

// How users, and nodes, share what moves bytes. Absent: left to other sections.
struct Share {
  std::vector<FileUser> users;
  std::vector<std::string> nodes;  // or patterns
  std::optional<uint32_t> weight = {};
  std::optional<uint64_t> rate_limit_bytes_per_second = {};  // 0: no limit
  std::optional<Priority> priority = {};

  friend bool operator==(const Share&, const Share&) = default;
};

// How this node learns the addresses of others, beside those of [peers].
enum class DiscoveryKind {
  kStatic,  // not at all
  kDns,
  kEtcd,
};

// One server of etcd.
struct EtcdEndpoint {
  bool tls = false;
  os::HostPort where;

  friend bool operator==(const EtcdEndpoint&, const EtcdEndpoint&) = default;
};

// [discovery]. What is of another kind than `kind` has its default.
struct Discovery {
  DiscoveryKind kind = DiscoveryKind::kStatic;
  std::optional<os::HostPort> advertise;  // absent: where the daemon listens
  std::string dns_name;
  std::optional<os::HostPort> dns_server;  // absent: those of /etc/resolv.conf
  std::vector<EtcdEndpoint> etcd_endpoints;
  std::string etcd_prefix;  // ends with '/'
  std::chrono::milliseconds etcd_lease{0};
  std::string etcd_ca;  // PEM files, read when the daemon connects
  std::string etcd_certificate;
  std::string etcd_key;
  std::string etcd_user;
  std::string etcd_password_file;

  friend bool operator==(const Discovery&, const Discovery&) = default;
};

// How much one user may have at a time, and all together.
struct Limit {
  uint64_t each = 0;
  uint64_t total = 0;

  friend bool operator==(const Limit&, const Limit&) = default;
};

struct Limits {
  Limit memory;  // in bytes
  Limit sessions;
  Limit namespaces;
  Limit connections;
  Limit descriptors;
  Limit requests;
  Limit buffers;
  Limit grants;
  Limit transfers;
  Limit rings;
  Limit routes;
  Limit openings;
  Limit files;
  Limit arrivals;
  uint32_t arrivals_per_buffer = 0;
  Limit watches;
  Limit slabs;
  Limit mappings;
  Limit request_ids;
  std::chrono::milliseconds request_memory{0};
  uint32_t health_watches = 0;
  uint32_t reserved_percent = 0;

  friend bool operator==(const Limits&, const Limits&) = default;
};

enum class LogFormat {
  kAuto,     // journal under systemd, else text
  kText,     // lines on stderr
  kJournal,  // structured fields
};

struct Config {
  std::string name;  // of this node; complete after Apply
  os::HostPort listen;
  std::vector<os::HostPort> lanes;  // empty: see LanesAddresses
  // Where clients of other machines reach the API, by TLS alone; absent: nowhere.
  std::optional<os::HostPort> api_listen;
  // Where metrics are served; absent: nowhere. Beyond loopback by TLS alone.
  std::optional<os::HostPort> metrics_listen;
  std::string run_dir;  // empty: /run/onecopy, else $XDG_RUNTIME_DIR/onecopy
  std::string uid_domain;
  bool insecure = false;
  std::string tuned;     // the file whose values fill the gaps; empty: there is none
  std::string topology;  // a file; empty: what this machine says of itself

  Tls tls;
  std::map<std::string, Peer> peers;      // by name or pattern: no other node may be a peer
  std::map<std::string, Export> exports;  // by name
  std::map<std::string, Share> shares;    // by name, of [qos.NAME]
  Discovery discovery;

  std::string log_level;
  LogFormat log_format = LogFormat::kAuto;

  uint64_t slot_bytes = 0;
  uint32_t slots = 0;

  uint64_t probe_bytes = 0;
  uint32_t probe_share_permille = 0;
  uint32_t probe_jitter_percent = 0;
  std::chrono::milliseconds probe_wait{0};
  std::chrono::milliseconds probe_limit{0};
  std::chrono::milliseconds probe_lifetime{0};
  std::chrono::milliseconds probe_retry{0};

  std::chrono::microseconds ring_spin{0};

  std::chrono::milliseconds stall_timeout{0};
  std::chrono::milliseconds resume_for{0};
  std::chrono::milliseconds drain_timeout{0};
  uint32_t keep_transfers = 0;

  std::string holder;  // "off", "own", or the path of a socket
  std::chrono::milliseconds hold_for{0};

  size_t audit_level = 0;  // of AuditLevels
  uint32_t audit_most_per_minute = 0;
  std::string audit_file;

  Limits limits;
  bool reflection = false;  // at api.sock

  std::chrono::milliseconds heartbeat{0};
  std::chrono::milliseconds reconnect_delay_min{0};
  std::chrono::milliseconds reconnect_delay_max{0};

  // Each key that there is, as "staging.slots" and as a file would write its value.
  std::map<std::string, std::string> texts;

  std::map<std::string, std::string> libraries;  // by key of [libraries]; empty: the system's
  std::map<std::string, Settings> backends;      // by section, complete

  // Where the tcp link's lanes listen: beside `listen`, on the next port, unless it is set. Port 0
  // (any free one) stays 0.
  std::vector<os::HostPort> LanesAddresses() const;

  friend bool operator==(const Config&, const Config&) = default;
};

// What the backends add to the file.
struct Schema {
  std::map<std::string, std::vector<SettingSpec>> backends;  // by section
  std::vector<std::string> libraries;                        // keys of [libraries]
};

// What a file without any key gives.
Config Defaults(const Schema& schema);

// NOT_FOUND for a file that is not there, the code that fits errno for one that cannot be read.
// INVALID_ARGUMENT (BAD_CONFIG) for everything that is wrong in it, all of it at once, one line of
// the message each, as "file:line: what". So too for the file that `tuned` names, or that lies
// beside this one as tuned.toml: its sections fill in what this one does not set, and it may have
// nothing outside sections but `version`.
Result<Config> Load(const std::string& file, const Schema& schema);
// The same for a text that came from `file`, without any other.
Result<Config> Parse(std::string_view text, const std::string& file, const Schema& schema);

// The file with every key commented out at its default, below what it does.
std::string PrintDefault(const Schema& schema);

// What of `wanted` differs from `running`, as lines for people: "log.level: "info" -> "debug"".
struct Changes {
  std::vector<std::string> now;         // counts as soon as it is read again
  std::vector<std::string> at_restart;  // waits for another start
};
Changes Compare(const Config& running, const Config& wanted);
// `running` with what counts at once taken from `wanted`.
Config Merge(const Config& running, const Config& wanted);

// Flags; what is absent leaves the file's value.
struct Overrides {
  std::optional<std::string> name;
  std::optional<std::string> listen;          // HOST:PORT
  std::optional<std::string> lanes;           // HOST:PORT, or several with commas
  std::optional<std::string> metrics_listen;  // HOST:PORT, or "off"
  std::optional<std::string> run_dir;
  std::optional<std::string> holder;  // "off", "own", or a path
  std::vector<std::string> peers;     // NAME=HOST:PORT; replaces the address of a peer of the file
};

// Puts the flags over the file, and the machine's host name where neither names the node; then
// checks the whole again. INVALID_ARGUMENT (BAD_CONFIG) with everything that is wrong; `config` is
// then unspecified.
Status Apply(const Overrides& overrides, Config& config);

// FAILED_PRECONDITION (INSECURE) when the daemon would speak plain text beyond this machine, as one
// that listens or to a peer, and the configuration does not say that it may. After Apply, as flags
// may change the addresses.
Status CheckSecurity(const Config& config);

}  // namespace onecopy::config
