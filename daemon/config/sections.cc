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

}  // namespace

const std::vector<SettingSpec>& TopKeys() {
  static const std::vector<SettingSpec> keys = {
      Text("name", "", "Name of this node, by which its peers know it; empty: the host name."),
      Text("listen", "127.0.0.1:7701", "HOST:PORT at which peers reach this daemon."),
      Text("lanes", "", "HOST:PORT of the tcp link's lanes; empty: the port after that of listen."),
      Text("run_dir", "",
           "Folder of api.sock and attach.sock; empty: /run/onecopy, else "
           "$XDG_RUNTIME_DIR/onecopy."),
      Text(
          "uid_domain", "",
          "Equal uids of two nodes are one owner where both name the same domain; empty: in none."),
      {.key = "insecure",
       .type = SettingType::kBool,
       .fallback = false,
       .doc = "Whether plain text may be spoken beyond this machine where [tls] is not set."},
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
      Text("address", "", "HOST:PORT at which the peer listens; must be set."),
      Text("uid_domain", "", "The peer's domain of uids; absent: what the peer says it is."),
  };
  return keys;
}

std::vector<SectionSpec> Sections(const Schema& schema) {
  using enum SettingType;
  std::vector<SectionSpec> sections = {
      {"tls",
       "Encrypts what daemons say to each other. All three files, in PEM form, or none.",
       {Text("ca", "", "Certificates of the authorities that sign the peers' certificates."),
        Text("certificate", "", "This node's certificate; its name is the node's."),
        Text("key", "", "The certificate's private key.")}},
      {"log",
       "",
       {Text("level", "info", "trace, debug, info, warning or error."),
        Text("format", "auto",
             "text: lines on stderr; journal: structured fields; auto: journal under systemd, else "
             "text.")}},
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
               "How many ended transfers stay queryable.")}},
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

const std::vector<std::string>& LogLevels() {
  static const std::vector<std::string> levels = {"trace", "debug", "info", "warning", "error"};
  return levels;
}

const std::vector<std::string>& LogFormats() {
  static const std::vector<std::string> formats = {"auto", "text", "journal"};
  return formats;
}

}  // namespace onecopy::config
