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
                         {1, kMax}, what + ", of one user at a time."));
  keys->push_back(Number(name, SettingType::kInteger, number(fallback.total), {1, kMax},
                         "The same of all users together."));
}

SectionSpec LimitsSection() {
  SectionSpec section{"limits",
                      "How much one user of this node may have, so that nobody takes what others "
                      "need. Administrators are bound by the totals alone.",
                      {}};
  std::vector<SettingSpec>& keys = section.keys;
  keys.push_back(Number("memory_per_user", SettingType::kBytes, 256 * kMiB, {kMiB, kTiB},
                        "Memory for all that is kept, queued and promised for one user, a peer or "
                        "an address at a time, beside buffers, slabs and slots themselves."));
  keys.push_back(Number("memory", SettingType::kBytes, 1024 * kMiB, {16 * kMiB, kTiB},
                        "The same of all together; the last quarter is for those who have little. "
                        "A quarter more is for what has ended and is still known, an eighth for "
                        "requests that end something, an eighth for handshakes."));
  AddLimit(&keys, "sessions", {1024, 4096},
           "Clients that are attached, and likewise connections to api.sock");
  AddLimit(&keys, "namespaces", {64, 256},
           "User and PID namespaces in which programs are connected to api.sock, or were a minute "
           "ago");
  AddLimit(&keys, "connections", {1024, 4096},
           "Connections to the peers' port, and likewise to api_listen; an address counts as one "
           "user");
  AddLimit(&keys, "descriptors", {1024, 8192},
           "Descriptors that were passed and are not used by a buffer yet");
  AddLimit(&keys, "requests", {8192, 32'768},
           "Requests and watches that are not answered or not read; a peer counts as one user");
  AddLimit(&keys, "buffers", {8192, 65'536}, "Buffers");
  AddLimit(&keys, "grants", {8192, 65'536}, "Grants given");
  AddLimit(&keys, "transfers", {16'384, 65'536},
           "Transfers under way; those that a peer orders count as one user's");
  AddLimit(&keys, "rings", {256, 1024}, "Rings for small transfers");
  AddLimit(&keys, "routes", {4096, 32'768}, "Ways of such rings between two buffers");
  AddLimit(&keys, "openings", {4096, 65'536},
           "Ranges that are kept open for rings of other nodes; a peer counts as one user");
  AddLimit(&keys, "files", {512, 4096},
           "Files of exports that are open; a peer counts as one user, and each of its users may "
           "have half of that");
  AddLimit(&keys, "arrivals", {4096, 65'536},
           "Arrivals in buffers, each with up to 4 KiB of message, that their owner has not "
           "acknowledged");
  keys.push_back(Number("arrivals_per_buffer", SettingType::kInteger, 1024, {2, 1'000'000'000},
                        "The same of one buffer."));
  AddLimit(&keys, "watches", {1024, 8192}, "Watches of arrivals");
  AddLimit(
      &keys, "slabs", {64, 256},
      "Clients that register ordinary memory of their process, each with [process] slab_bytes");
  AddLimit(&keys, "mappings", {1024, 4096}, "Buffers that clients use in place (MapBuffer)");
  AddLimit(&keys, "request_ids", {2'097'152, 8'388'608},
           "Requests that are remembered by their ids, so that none is carried out twice");
  keys.push_back(Number("request_memory", SettingType::kDuration, 600 * kSecond, {kSecond, kDay},
                        "For how long they are, at least."));
  keys.push_back(Number("health_watches", SettingType::kInteger, 256, {0, 65'536},
                        "Clients that watch the health of one of the daemon's servers, which takes "
                        "no session."));
  keys.push_back(Number("reserved_percent", SettingType::kInteger, 5, {0, 90},
                        "How much of each total is for administrators alone."));
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
      Text("name", "", "Name of this node, by which its peers know it; empty: the host name."),
      Text("listen", "127.0.0.1:7701", "HOST:PORT at which peers reach this daemon."),
      Text("lanes", "", "HOST:PORT of the tcp link's lanes; empty: the port after that of listen."),
      Text("api_listen", "",
           "HOST:PORT at which programs of other machines reach the API that api.sock has, with a "
           "user's certificate (onecopy cert issue-user); needs [tls]. Empty: nowhere."),
      Text("metrics_listen", "127.0.0.1:9464",
           "HOST:PORT at which metrics are served in Prometheus' format. On loopback: by HTTP, to "
           "every user of this machine. Elsewhere: by HTTPS with this node's certificate, to those "
           "who show one of [tls] ca; needs [tls]. \"off\": nowhere."),
      Text("run_dir", "",
           "Folder of api.sock and attach.sock; empty: /run/onecopy, else "
           "$XDG_RUNTIME_DIR/onecopy."),
      Text("uid_domain", "",
           "Equal uids of two nodes are one owner where both are of one domain: this node of this "
           "one, a peer of that under [peers]. Empty: of none, but on loopback of this machine's."),
      {.key = "insecure",
       .type = SettingType::kBool,
       .fallback = false,
       .doc =
           "Whether plain text may be spoken beyond this machine, to peers too, where [tls] is not "
           "set."},
      Text("tuned", "",
           "File with what was measured to be best for this machine, as onecopy-bench tune writes "
           "it; what is set here goes before it. Empty: tuned.toml beside this file, if there is "
           "one."),
      Text("topology", "",
           "File that says where GPUs, network devices and disks sit, where the machine's own "
           "account "
           "is wrong, as in virtual machines; empty: that account."),
  };
  return keys;
}

const std::vector<SettingSpec>& PeerKeys() {
  static const std::vector<SettingSpec> keys = {
      Text("address", "",
           "HOST:PORT at which the peer listens; absent: it calls, and is not called before. A "
           "pattern has none."),
      Text("uid_domain", "",
           "The peer's domain of uids; what it says itself does not count. Absent: none, but for "
           "peers on this machine, which share this node's if they name the same."),
      Text(
          "create_bytes", "",
          "How much memory the peer's users may have this daemon allocate for buffers of theirs, "
          "all together, as \"64GiB\" (onecopy cp --create, buffer create PEER:NAME); \"0\": none. "
          "Absent: those who are users of this node, too, by uid_domain, as much as here; others "
          "none."),
  };
  return keys;
}

const std::vector<SettingSpec>& ExportKeys() {
  static const std::vector<SettingSpec> keys = {
      Text("path", "",
           "The folder: an absolute path, without . or .. and with single slashes. What it leads "
           "to is found anew for each file."),
      Text("read", "",
           "Who may read every regular file below it that onecopyd may read, hard links and what "
           "is mounted there included: owners as UID@NODE, or *@NODE for all users of a node, "
           "between blanks; a node may be a pattern, and without @NODE it is a user of this one. "
           "Empty: nobody."),
      Text("write", "",
           "Likewise who may make files there, and change and replace those that onecopyd may "
           "write; it is no right to read. A new file is onecopyd's own user's; one that is "
           "replaced keeps its mode, and its owner where onecopyd may give files away. Folders are "
           "not made. Empty: nobody."),
      Text("mode", "0640",
           "The mode of a new file, in octal, whatever onecopyd's umask: at most 0777, and its "
           "owner may read and write it."),
      Text("follow", "none",
           "Which symbolic links below the folder are followed. \"none\"; \"beneath\": those that "
           "lead "
           "to something below the folder, step by step, by a relative path, as in Hugging Face's "
           "cache. A link that has the name of what is to be written never is."),
  };
  return keys;
}

std::vector<SectionSpec> Sections(const Schema& schema) {
  using enum SettingType;
  std::vector<SectionSpec> sections = {
      {"tls",
       "Encrypts what daemons say to each other and what tcp lanes carry. The first three files, "
       "in PEM form, or none; "
       "onecopy "
       "cert makes them where there is no authority yet. SIGHUP has all of them read again.",
       {Text("ca", "", "Certificates of the authorities that sign the peers' certificates."),
        Text("certificate", "",
             "This node's certificate; DNS:NAME, or URI:onecopy://NAME, with this node's name is "
             "among its subject alternative names."),
        Text("key", "", "The certificate's private key, which nobody but its owner may read."),
        Text("crl", "",
             "Lists of revoked certificates, of the authorities in ca; none counts once its next "
             "one "
             "is due. Empty: no certificate is revoked."),
        Number("reload", kDuration, 60 * kSecond, {0, kDay},
               "How often these files are read again; what they then say counts for open "
               "connections, too. 0: only at SIGHUP."),
        {.key = "lanes_plain",
         .type = kBool,
         .fallback = false,
         .doc = "Whether lanes of the tcp link may carry the payload as plain text all the same, "
                "where the other node says so, too: for networks that are trusted with it."}}},
      {"log",
       "",
       {Text("level", "info", "debug, info, warning or error."),
        Text("format", "auto",
             "text: lines on stderr; journal: structured fields; auto: journal under systemd, else "
             "text.")}},
      {"audit",
       "Who asked for what, from where, and whether it was allowed.",
       {Text("level", "rights",
             "off; denied: what was refused; rights: also what changes who may do what; all: every "
             "decision."),
        Number("most_per_minute", kInteger, 120, {1, 1'000'000},
               "Records of one who asks; then how many were left out."),
        Text("file", "", "Where they go; empty: where the log goes.")}},
      {"staging",
       "Pinned host memory through which bytes pass where no direct path works.",
       {Number("slot_bytes", kBytes, 2 * kMiB, {4 * kKiB, 64 * kMiB}, "Size of one slot."),
        Number("slots", kInteger, 64, {4, 65536},
               "How many there are, half of them for sending, half for receiving.")}},
      {"probes",
       "Finds out, by doing it, which ways between nodes work and how fast they are.",
       {Number("bytes", kBytes, 16 * kMiB, {64 * kKiB, 64 * kMiB},
               "Memory that a probe takes at each end, on a GPU too."),
        Number("share_permille", kInteger, 10, {1, 10},
               "Most of a link's time that probes may take, in thousandths."),
        Number("wait", kDuration, 2 * kSecond, {0, 60 * kSecond},
               "How long a transfer waits for probes that decide its path."),
        Number("limit", kDuration, 10 * kSecond, {100, 60 * kSecond},
               "A probe that takes longer is given up."),
        Number("lifetime", kDuration, 600 * kSecond, {kSecond, kDay},
               "How long a result counts before it is found out anew."),
        Number("retry", kDuration, 5 * kSecond, {100, 120 * kSecond},
               "How long a failure counts; doubles with each one up to two minutes."),
        Number("jitter_percent", kInteger, 25, {0, 50},
               "By how much lifetime and retry vary, so that nodes do not probe together.")}},
      {"ring",
       "Small transfers that clients ask for through memory which they share with the daemon.",
       {Number("spin_microseconds", kInteger, 100, {0, 1'000'000},
               "How long daemon and client look for more, with a processor each, before they sleep "
               "and must be woken.")}},
      {"transfers",
       "",
       {Number("stall_timeout", kDuration, 30 * kSecond, {kSecond, kDay},
               "A transfer of which no byte moves for so long fails."),
        Number("drain_timeout", kDuration, 30 * kSecond, {0, kDay},
               "How long running transfers may go on after SIGTERM before they are cancelled."),
        Number("keep", kInteger, 1000, {0, 1'000'000},
               "How many ended transfers of each user stay queryable.")}},
      {"api",
       "What clients of this machine ask for.",
       {{.key = "reflection",
         .type = kBool,
         .fallback = false,
         .doc = "Whether programs may ask api.sock what services there are, without a session; "
                "each that does takes a thread meanwhile, of 16 at most."}}},
      {"peering",
       "",
       {Number("heartbeat", kDuration, 5 * kSecond, {100, 3600 * kSecond},
               "How often a connected peer is asked whether it is still there."),
        Number(
            "reconnect_least", kDuration, 100, {10, 3600 * kSecond},
            "Pause before the first attempt to reach a lost peer again; it doubles with each one."),
        Number("reconnect_most", kDuration, 10 * kSecond, {10, 3600 * kSecond},
               "The longest that this pause becomes.")}},
  };
  sections.push_back(LimitsSection());
  SectionSpec libraries{
      "libraries", "Vendors' libraries to use instead of the system's, by their paths.", {}};
  for (const std::string& library : schema.libraries) {
    libraries.keys.push_back(
        Text(library, "", "Path of the " + library + " library; empty: the system's."));
  }
  sections.push_back(std::move(libraries));
  for (const auto& [name, keys] : schema.backends) sections.push_back({name, "", keys});
  return sections;
}

std::vector<SectionSpec> SectionsToRead(const Schema& schema) {
  const SectionSpec peers{
      "peers.west",
      "One section for each peer, by its name, or for several, by a pattern: [peers.\"gpu-*\"]. No "
      "other node may be a peer, but, without [tls], daemons on this machine that run as this "
      "one's "
      "user or root.",
      PeerKeys(), true};
  const SectionSpec exports{
      "exports.data",
      "One section for each folder whose files users of other nodes may read, as onecopy cp "
      "NODE:/PATH BUFFER, or write, as onecopy cp BUFFER NODE:/PATH; nothing is exported by "
      "default.",
      ExportKeys(), true};
  std::vector<SectionSpec> sections;
  for (SectionSpec& section : Sections(schema)) {
    const bool tls = section.name == "tls";
    sections.push_back(std::move(section));
    if (!tls) continue;
    sections.push_back(peers);
    sections.push_back(exports);
  }
  return sections;
}

const std::vector<std::string>& LogLevels() {
  static const std::vector<std::string> levels = {"debug", "info", "warning", "error"};
  return levels;
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
