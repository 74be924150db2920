#include "daemon/config/sections.h"

namespace onecopy::config {
namespace {

SettingSpec Text(std::string key, std::string fallback, std::string doc) {
  return {.key = std::move(key),
          .type = SettingType::kText,
          .fallback = std::move(fallback),
          .doc = std::move(doc)};
}

// `bounds` are of bytes, milliseconds or plain numbers, as the type is.
struct Bounds {
  int64_t least;
  int64_t most;
};

SettingSpec Number(std::string key, SettingType type, int64_t fallback, Bounds bounds,
                   std::string doc) {
  return {.key = std::move(key),
          .type = type,
          .fallback = fallback,
          .doc = std::move(doc),
          .least = bounds.least,
          .most = bounds.most};
}

SettingSpec Choice(std::string key, std::string fallback, std::vector<std::string> choices,
                   std::string doc) {
  SettingSpec spec = Text(std::move(key), std::move(fallback), std::move(doc));
  spec.choices = std::move(choices);
  return spec;
}

constexpr int64_t kSecond = 1000;
constexpr int64_t kDay = 24 * 3600 * kSecond;
constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kTiB = 1024 * 1024 * kMiB;

// The two keys of one limit.
void AddLimit(std::vector<SettingSpec>* keys, const std::string& name, const Limit& fallback,
              const std::string& what) {
  constexpr int64_t kMax = 1'000'000'000;
  const auto number = [](uint64_t value) { return static_cast<int64_t>(value); };
  keys->push_back(Number(name + "_per_user", SettingType::kInteger, number(fallback.each),
                         {1, kMax}, what + ". This is the limit for one user."));
  keys->push_back(Number(name, SettingType::kInteger, number(fallback.total), {1, kMax},
                         "The same limit for all users together."));
}

SectionSpec DiscoverySection() {
  SectionSpec section{"discovery",
                      "How this node learns the addresses of its peers, so that not every node's "
                      "configuration must name every other node. A discovered node is a peer only "
                      "if a section of [peers] has its name or a pattern that matches it. An "
                      "address in [peers] takes precedence over a discovered one.",
                      {}};
  std::vector<SettingSpec>& keys = section.keys;
  keys.push_back(Text("kind", "static",
                      "static: only the addresses in [peers]; dns: from a DNS name that lists all "
                      "nodes; etcd: each node writes its address to etcd (version 3)."));
  keys.push_back(Text("advertise", "",
                      "HOST:PORT at which other nodes reach this daemon. With etcd, it must be set "
                      "if listen has no particular address (0.0.0.0 or ::). Empty: where the "
                      "daemon listens."));
  keys.push_back(Text("dns_name", "",
                      "The name to look up. If it begins with _, its SRV records: each gives a "
                      "node's port and, as its target's first label, the node's name. Otherwise "
                      "its A and AAAA records: the port is that of listen, and the node's name is "
                      "that of the certificate that answers there, so [tls] must be set."));
  keys.push_back(Text("dns_server", "",
                      "HOST:PORT of the DNS server to ask, an IPv4 address. Empty: the servers in "
                      "/etc/resolv.conf."));
  keys.push_back({.key = "etcd_endpoints",
                  .type = SettingType::kTextList,
                  .fallback = std::vector<std::string>(),
                  .doc = "The servers of etcd, as \"https://10.0.0.1:2379\". The daemon uses one "
                         "at a time and tries the next one if it fails."});
  keys.push_back(Text("etcd_prefix", "/onecopy/nodes/",
                      "Where the nodes' keys are. Clusters that share one etcd need different "
                      "prefixes."));
  keys.push_back(Number("etcd_lease", SettingType::kDuration, 10 * kSecond,
                        {2 * kSecond, 600 * kSecond},
                        "How long this node's entry stays in etcd after the daemon was killed or "
                        "was cut off; at least 2 s."));
  keys.push_back(Text("etcd_ca", "",
                      "Certificates of the CAs that sign the certificates of etcd's servers. Must "
                      "be set for https."));
  keys.push_back(Text("etcd_certificate", "",
                      "This daemon's certificate as a client of etcd, if etcd asks for one."));
  keys.push_back(Text("etcd_key", "", "The private key of etcd_certificate."));
  keys.push_back(Text("etcd_user", "", "User of etcd, if its authentication is on."));
  keys.push_back(Text("etcd_password_file", "",
                      "File whose first line is that user's password. The daemon reads it each "
                      "time it connects."));
  return section;
}

SectionSpec LimitsSection() {
  SectionSpec section{"limits",
                      "What one user of this node may use at a time, so that no user can exhaust "
                      "it. For administrators, only the totals apply.",
                      {}};
  std::vector<SettingSpec>& keys = section.keys;
  keys.push_back(Number("memory_per_user", SettingType::kBytes, 256 * kMiB, {kMiB, kTiB},
                        "Memory for the records and queues that the daemon keeps for one user, "
                        "peer or address. Buffers, slabs and slots do not count."));
  keys.push_back(
      Number("memory", SettingType::kBytes, 1024 * kMiB, {16 * kMiB, kTiB},
             "The same limit for all together; its last quarter is reserved for those that use "
             "little. On top of it come a quarter for records of ended work, an eighth for "
             "requests that end something, and an eighth for handshakes."));
  AddLimit(&keys, "sessions", {1024, 4096},
           "Attached clients; the same number again limits connections to api.sock");
  AddLimit(&keys, "namespaces", {64, 256},
           "User and PID namespaces of the programs that are connected to api.sock, or were within "
           "the last minute");
  AddLimit(&keys, "connections", {1024, 4096},
           "Connections to the peers' port; the same number again limits api_listen. An address "
           "counts as one user");
  AddLimit(&keys, "descriptors", {1024, 8192},
           "File descriptors that clients passed and no buffer uses yet");
  AddLimit(&keys, "requests", {8192, 32'768},
           "Requests and watches without an answer, or with an answer that the client has not "
           "read. A peer counts as one user");
  AddLimit(&keys, "buffers", {8192, 65'536}, "Buffers");
  AddLimit(&keys, "grants", {8192, 65'536}, "Grants");
  AddLimit(&keys, "transfers", {16'384, 65'536},
           "Running transfers; those that a peer requests count as one user's");
  AddLimit(&keys, "rings", {256, 1024}, "Rings for small transfers");
  AddLimit(&keys, "routes", {4096, 32'768}, "Routes of these rings: pairs of buffers");
  AddLimit(&keys, "openings", {4096, 65'536},
           "Ranges kept open for rings of other nodes. A peer counts as one user");
  AddLimit(&keys, "files", {512, 4096},
           "Open files of exports. A peer counts as one user, and each of its users may have half "
           "of that");
  AddLimit(
      &keys, "arrivals", {4096, 65'536},
      "Arrivals that a buffer's owner has not acknowledged, each with a message of up to 4 KiB");
  keys.push_back(Number("arrivals_per_buffer", SettingType::kInteger, 1024, {2, 1'000'000'000},
                        "The same limit for one buffer."));
  AddLimit(&keys, "watches", {1024, 8192}, "Watches of arrivals");
  AddLimit(
      &keys, "slabs", {64, 256},
      "Clients that register ordinary memory of their process; each takes [process] slab_bytes");
  AddLimit(&keys, "mappings", {1024, 4096}, "Buffers that clients use in place (MapBuffer)");
  AddLimit(&keys, "request_ids", {2'097'152, 8'388'608},
           "Request ids that the daemon remembers, so that it carries out no request twice");
  keys.push_back(Number("request_memory", SettingType::kDuration, 600 * kSecond, {kSecond, kDay},
                        "How long it remembers a request id, at least."));
  keys.push_back(
      Number("health_watches", SettingType::kInteger, 256, {0, 65'536},
             "Clients that watch the health of one server of the daemon; this takes no session."));
  keys.push_back(Number("reserved_percent", SettingType::kInteger, 5, {0, 90},
                        "Percentage of each total that is reserved for administrators."));
  return section;
}

}  // namespace

const std::vector<LimitKey>& LimitKeys() {
  static const std::vector<LimitKey> keys = {{"memory", &Limits::memory},
                                             {"sessions", &Limits::sessions},
                                             {"namespaces", &Limits::namespaces},
                                             {"connections", &Limits::connections},
                                             {"descriptors", &Limits::descriptors},
                                             {"requests", &Limits::requests},
                                             {"buffers", &Limits::buffers},
                                             {"grants", &Limits::grants},
                                             {"transfers", &Limits::transfers},
                                             {"rings", &Limits::rings},
                                             {"routes", &Limits::routes},
                                             {"openings", &Limits::openings},
                                             {"files", &Limits::files},
                                             {"slabs", &Limits::slabs},
                                             {"mappings", &Limits::mappings},
                                             {"arrivals", &Limits::arrivals},
                                             {"watches", &Limits::watches},
                                             {"request_ids", &Limits::request_ids}};
  return keys;
}

const std::vector<SettingSpec>& TopKeys() {
  static const std::vector<SettingSpec> keys = {
      Text("name", "", "Name of this node, by which peers know it. Empty: the host name."),
      Text("listen", "127.0.0.1:7701", "HOST:PORT on which this daemon accepts peers."),
      Text("lanes", "",
           "HOST:PORT for the payload over TCP. Several, with commas between: one address of each "
           "network. Peers use all of them at once, leave one that does not answer, and take it "
           "back. Empty: the port after that of listen."),
      Text("api_listen", "",
           "HOST:PORT of the API for programs on other machines; the same API as api.sock. Callers "
           "need a user's certificate (onecopy cert issue-user), and [tls] must be set. Empty: "
           "off."),
      Text("metrics_listen", "127.0.0.1:9464",
           "HOST:PORT at which metrics (/metrics, in Prometheus' format) and a status page (/) are "
           "served. On loopback: by HTTP, to "
           "every user of this machine. Elsewhere: by HTTPS with this node's certificate, to "
           "clients with a certificate of [tls] ca; needs [tls]. \"off\": no metrics."),
      Text("run_dir", "",
           "Folder of api.sock and attach.sock. Empty: /run/onecopy, else "
           "$XDG_RUNTIME_DIR/onecopy."),
      Text("uid_domain", "",
           "Name of this node's uid domain. A uid is the same user on all nodes of one domain; "
           "[peers] sets the domain of each peer. Empty: no domain, but daemons on loopback share "
           "that of this machine."),
      {.key = "insecure",
       .type = SettingType::kBool,
       .fallback = false,
       .doc = "Whether the daemon may use plain text beyond this machine, also to peers, if [tls] "
              "is not set."},
      Text("tuned", "",
           "File of measured settings for this machine, written by onecopy-bench tune; settings in "
           "this file take precedence. Empty: tuned.toml beside this file, if it exists."),
      Text("topology", "",
           "File that describes where GPUs, network devices and drives sit, for machines that "
           "report it wrongly, such as virtual machines. Empty: as the machine reports it."),
  };
  return keys;
}

const std::vector<SettingSpec>& PeerKeys() {
  static const std::vector<SettingSpec> keys = {
      Text(
          "address", "",
          "HOST:PORT on which the peer listens. Several IP addresses, with commas between: the "
          "first one that answers is used. Absent: the peer connects to this node first. A pattern "
          "has no address."),
      Text("uid_domain", "",
           "The peer's uid domain; the peer's own claim does not count. Absent: no domain, but a "
           "peer on this machine shares this node's domain if it names the same one."),
      Text(
          "create_bytes", "",
          "How much memory this daemon allocates for buffers of the peer's users, all together, as "
          "\"64GiB\" (onecopy cp --create, buffer create PEER:NAME). \"0\": none. Absent: users "
          "that uid_domain makes users of this node get as much as local users, others none."),
  };
  return keys;
}

const std::vector<SettingSpec>& ExportKeys() {
  static const std::vector<SettingSpec> keys = {
      Text("path", "",
           "The folder: an absolute path, without . or .. and with single slashes. The daemon "
           "resolves it again for each file."),
      Text("read", "",
           "Users that may read the regular files below the folder, separated by blanks: UID@NODE, "
           "*@NODE for all users of a node, or UID for a user of this node. A node may be a "
           "pattern. They may read every file that onecopyd may read, including hard links and "
           "mounted file systems. Empty: no user."),
      Text("write", "",
           "Users that may create files there, and change and replace files that onecopyd may "
           "write. This does not allow reading. A new file belongs to onecopyd's user; a replaced "
           "file keeps its mode, and its owner if onecopyd may change owners. Folders are not "
           "created. Empty: no user."),
      Text("mode", "0640",
           "The mode of a new file, in octal; onecopyd's umask does not apply. At most 0777, and "
           "the owner must be able to read and write it."),
      Text("follow", "none",
           "Which symbolic links below the folder are followed. \"none\"; \"beneath\": relative "
           "links whose every step stays below the folder, as in Hugging Face's cache. A link with "
           "the name of the file to write is never followed."),
  };
  return keys;
}

const std::vector<SettingSpec>& ShareKeys() {
  static const std::vector<SettingSpec> keys = {
      Text(
          "users", "",
          "For which users the section holds, separated by blanks: UID@NODE, *@NODE for each user "
          "of a node, or UID for a user of this node. A node may be a pattern. Weights count among "
          "the users of one node."),
      Text("nodes", "",
           "For which nodes, or patterns, separated by blanks: for what is asked for at the node, "
           "by all its users together. This node's own name stands for what is asked for here."),
      Number("weight", SettingType::kInteger, 1, {1, 100},
             "How many shares each of them gets. If several sections with this key name one user "
             "or node, the most particular counts (7@west, then 7@*, then *@west, then *@*), and "
             "of equal ones the largest weight. Likewise the next two keys, with the lowest limit "
             "and the highest priority."),
      Number("rate_limit", SettingType::kBytes, 0, {0, int64_t{1} << 50},
             "How many bytes in a second each of them moves to this node, or inside it, at most: "
             "\"500MiB\". At least 1MiB; 0: no limit. What is limited does not go by rings."),
      Choice("priority", "normal", {"low", "normal", "high"},
             "What goes first where several wait. A lower priority gets a 64th of what goes before "
             "it. A user's counts before a node's."),
  };
  return keys;
}

std::vector<SectionSpec> Sections(const Schema& schema) {
  using enum SettingType;
  std::vector<SectionSpec> sections = {
      {"tls",
       "Certificates of the nodes. They encrypt the calls between daemons and the payload over "
       "TCP. Set all of ca, certificate and key (PEM files), or none; onecopy cert makes them if "
       "you have no CA. SIGHUP makes the daemon read them again.",
       {Text("ca", "", "Certificates of the CAs that sign the peers' certificates."),
        Text("certificate", "",
             "This node's certificate. Its subject alternative names must include DNS:NAME or "
             "URI:onecopy://NAME, with this node's name."),
        Text("key", "", "The certificate's private key. Only its owner may be able to read it."),
        Text("crl", "",
             "Revocation lists (CRLs) of the CAs in ca. When a list expires, all certificates of "
             "its CA are rejected. Empty: no certificate is revoked."),
        Number("reload", kDuration, 60 * kSecond, {0, kDay},
               "How often the daemon reads these files again. Changes also apply to open "
               "connections. 0: only at SIGHUP."),
        {.key = "lanes_plain",
         .type = kBool,
         .fallback = false,
         .doc = "Whether the payload over TCP may stay plain text, if the other node allows it "
                "too: for trusted networks."}}},
      {"log",
       "",
       {Text("level", "info", "debug, info, warning or error."),
        Text("format", "auto",
             "text: lines on stderr; journal: structured fields for systemd's journal; auto: "
             "journal under systemd, else text.")}},
      {"audit",
       "Records which user asked for what, from where, and whether it was allowed.",
       {Text("level", "rights",
             "off; denied: refused requests; rights: also changes of rights; all: every decision."),
        Number(
            "most_per_minute", kInteger, 120, {1, 1'000'000},
            "At most this many records per caller per minute are written; the rest are counted."),
        Text("file", "", "File for the records. Empty: the log.")}},
      {"staging",
       "Slots: pinned host memory through which bytes pass if no direct path works.",
       {Number("slot_bytes", kBytes, 2 * kMiB, {4 * kKiB, 64 * kMiB}, "Size of one slot."),
        Number("slots", kInteger, 64, {4, 65536},
               "Number of slots; half are for sending, half for receiving.")}},
      {"probes",
       "Measures which routes between nodes work, and how fast they are.",
       {Number("bytes", kBytes, 16 * kMiB, {64 * kKiB, 64 * kMiB},
               "Memory that a probe takes at each end, also on a GPU."),
        Number("share_permille", kInteger, 10, {1, 10},
               "The largest part of a link's time that probes may take, in thousandths."),
        Number("wait", kDuration, 2 * kSecond, {0, 60 * kSecond},
               "How long a transfer waits for the probes that decide its path."),
        Number("limit", kDuration, 10 * kSecond, {100, 60 * kSecond},
               "A probe that takes longer is abandoned."),
        Number("lifetime", kDuration, 600 * kSecond, {kSecond, kDay},
               "How long a result is valid before it is measured again."),
        Number("retry", kDuration, 5 * kSecond, {100, 120 * kSecond},
               "How long a failure is valid; this doubles with each failure, up to two minutes."),
        Number("jitter_percent", kInteger, 25, {0, 50},
               "How much lifetime and retry vary at random, so that nodes do not probe at the same "
               "time.")}},
      {"ring",
       "Rings: memory that a client shares with the daemon to request small transfers without a "
       "call.",
       {Number("spin_microseconds", kInteger, 100, {0, 1'000'000},
               "How long daemon and client poll for more work before they sleep. Polling keeps a "
               "core of each busy.")}},
      {"transfers",
       "",
       {Number("stall_timeout", kDuration, 30 * kSecond, {kSecond, kDay},
               "A transfer fails if none of its bytes move for this long."),
        Number("resume_for", kDuration, 600 * kSecond, {0, kDay},
               "How long a transfer that has lost its connection waits for the peer, if some of "
               "its bytes have arrived; then it goes on with the others. 0: it fails."),
        Number("drain_timeout", kDuration, 30 * kSecond, {0, kDay},
               "How long running transfers may continue after SIGTERM before they are cancelled."),
        Number("keep", kInteger, 1000, {0, 1'000'000},
               "How many ended transfers the daemon remembers for each user.")}},
      {"restart",
       "Keeping buffers that the daemon allocated when the daemon is restarted or killed.",
       {Text(
            "holder", "off",
            "The process that holds the memory while no daemon runs. \"off\": none, so buffers end "
            "with the daemon; \"own\": an onecopy-holder that the daemon starts; otherwise the "
            "absolute path of the socket of a running onecopy-holder. The service sets this with "
            "--holder, which overrides this key."),
        Number("hold_for", kDuration, 300 * kSecond, {kSecond, 7 * kDay},
               "How long the holder waits for the next daemon before it frees the memory.")}},
      {"api",
       "The API for clients on this machine.",
       {{.key = "reflection",
         .type = kBool,
         .fallback = false,
         .doc = "Whether gRPC reflection is on: programs may list the services of api.sock without "
                "a session. Each of them occupies a thread meanwhile, of at most 16."}}},
      {"peering",
       "",
       {Number("heartbeat", kDuration, 5 * kSecond, {100, 3600 * kSecond},
               "How often the daemon checks that a connected peer still answers."),
        Number("reconnect_delay_min", kDuration, 100, {10, 3600 * kSecond},
               "Pause before the first attempt to reconnect to a lost peer; it doubles with each "
               "attempt."),
        Number("reconnect_delay_max", kDuration, 10 * kSecond, {10, 3600 * kSecond},
               "The longest such pause.")}},
  };
  sections.push_back(DiscoverySection());
  sections.push_back(LimitsSection());
  SectionSpec libraries{
      "libraries", "Paths of vendors' libraries to use instead of the system's.", {}};
  for (const std::string& library : schema.libraries) {
    libraries.keys.push_back(
        Text(library, "",
             "Path of the " + library + " library. Empty: the system's" +
                 (library == "ucx" ? ", or a vendor's that reaches more (docs/rdma.md)." : ".")));
  }
  sections.push_back(std::move(libraries));
  for (const auto& [name, keys] : schema.backends) sections.push_back({name, "", keys});
  return sections;
}

std::vector<SectionSpec> SectionsToRead(const Schema& schema) {
  const SectionSpec peers{
      "peers.west",
      "One section for each peer, by name, or for several, by a pattern: [peers.\"gpu-*\"]. Other "
      "nodes cannot be peers. Exception: without [tls], daemons on this machine that run as the "
      "same user or as root can.",
      PeerKeys(), true};
  const SectionSpec exports{"exports.data",
                            "One section for each exported folder: users of other nodes may read "
                            "its files (onecopy cp NODE:/PATH BUFFER) or write them (onecopy cp "
                            "BUFFER NODE:/PATH). By default, nothing is exported.",
                            ExportKeys(), true};
  const SectionSpec shares{"qos.training",
                           "One section for each weight. Users and nodes whose bytes wait for one "
                           "another get shares of what moves them according to their weights: "
                           "nodes first, then the users of each node.",
                           ShareKeys(), true};
  std::vector<SectionSpec> sections;
  for (SectionSpec& section : Sections(schema)) {
    const bool tls = section.name == "tls";
    sections.push_back(std::move(section));
    if (!tls) continue;
    sections.push_back(peers);
    sections.push_back(exports);
    sections.push_back(shares);
  }
  return sections;
}

const std::vector<std::string>& LogLevels() {
  static const std::vector<std::string> levels = {"debug", "info", "warning", "error"};
  return levels;
}

const std::vector<std::string>& DiscoveryKinds() {
  static const std::vector<std::string> kinds = {"static", "dns", "etcd"};
  return kinds;
}

const std::vector<std::string>& AuditLevels() {
  static const std::vector<std::string> levels = {"off", "denied", "rights", "all"};
  return levels;
}

const std::vector<std::string>& LogFormats() {
  static const std::vector<std::string> formats = {"auto", "text", "journal"};
  return formats;
}

}  // namespace onecopy::config
