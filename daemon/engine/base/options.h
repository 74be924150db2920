// What the configuration says to the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/holder_api.h"
#include "daemon/engine/api/limits.h"
#include "daemon/engine/api/types.h"
#include "onecopy/node.h"
#include "onecopy/result.h"
#include "onecopy/topology.h"

namespace onecopy::engine {

// A node that the configuration names, or, by a pattern with * and ?, several.
struct PeerOptions {
  std::string name;
  std::string address;  // HOST:PORT; empty: it calls, and is not called before
  // The peer's domain of uids; absent: see Admission::DomainOf.
  std::optional<std::string> uid_domain;
  // How much memory its users may have had allocated here, all together; absent: as much as users
  // of this node where they are the same, else none.
  std::optional<uint64_t> create_bytes = {};
  // Nothing but where a node is, which [peers] lets in by another entry: this one gives no rights,
  // and does not disturb a connection that works. Its name is no pattern.
  bool discovered = false;
};

// Of the users that something is said of: one or all, of a node or of several, by a pattern with *
// and ?.
struct UserPattern {
  std::optional<uint32_t> uid;  // absent: all of the node's
  std::string node;
};

// A folder of this node whose files others may read or write.
struct ExportOptions {
  std::string name;  // [exports.NAME]
  std::string path;  // absolute, in its shortest form
  std::vector<UserPattern> read;
  std::vector<UserPattern> write;
  uint32_t mode = 0640;         // of a new file
  bool follow_beneath = false;  // symbolic links that stay below the folder lead on
};

// A share of what moves bytes (see Flows), for each of those that are named. What is absent leaves
// it to other sections. Of several that name the same the most particular counts; of equally
// particular ones the largest weight, the lowest limit, and the highest priority.
struct ShareOptions {
  std::vector<UserPattern> users;
  std::vector<std::string> nodes;  // or patterns
  std::optional<uint32_t> weight = 1;
  std::optional<uint64_t> bytes_per_second = {};  // 0: no limit
  std::optional<Priority> priority = {};
};

struct DiscoveryState {
  DiscoveryInfo info;
  std::vector<NameConflict> conflicts;  // names that were taken where nodes are discovered
};

struct Options {
  std::string node;
  std::string version;

  std::string uid_domain;
  bool loopback_only =
      true;  // peers on loopback share this node's uid domain unless they say otherwise
  bool names_proven = false;  // by certificates: a caller is the node that it says it is
  uint32_t daemon_uid = 0;
  std::vector<PeerOptions> peers;
  std::vector<ExportOptions> exports;
  std::vector<ShareOptions> shares;

  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds reconnect_delay_min{100};
  std::chrono::milliseconds reconnect_delay_max{10000};
  std::chrono::milliseconds stall_timeout{30000};
  // How long a transfer of which something has arrived waits for a peer or a link that was lost.
  std::chrono::milliseconds resume_for{600000};
  // How long a peer that is neither configured by name nor discovered stays a peer after it was
  // heard last; and the least time that the record of one which is gone stays.
  std::chrono::milliseconds silent_peer_stays{60000};
  std::chrono::milliseconds drain_timeout{30000};
  uint32_t keep_transfers = 1000;  // ended ones of each owner that stay queryable
  Limits limits;
  Topology topology;  // of this machine
  uint64_t slot_bytes = 2 << 20;
  uint32_t slots = 64;  // half for sending, half for receiving

  uint64_t probe_bytes = 16 << 20;               // of memory at each end of a probe; at most 64 MiB
  std::chrono::milliseconds probe_wait{2000};    // of a transfer, for what it needs to know
  std::chrono::milliseconds probe_limit{10000};  // of one probe
  std::chrono::milliseconds probe_lifetime{600000};  // of what one found
  std::chrono::milliseconds probe_retry{5000};       // after a failure; doubles up to 2 min
  double probe_share = 0.01;                         // of a link's time, after a first burst
  double probe_jitter = 0.25;  // by which both of these vary, either way: up to 0.5

  // How long memory of another daemon of this host stays mapped that no transfer uses any more.
  std::chrono::milliseconds imported_idle{10000};

  // How long the rings' thread looks for more, without sleeping, after a ring's last piece of work;
  // clients' threads likewise wait so long for its end.
  std::chrono::nanoseconds ring_spin{100'000};
  // From then on a ring's route that nothing went by makes room for another one.
  std::chrono::nanoseconds unused_route = std::chrono::seconds(10);

  // Keeps memory and records when this process ends; must outlive the engine. Null: nothing is
  // kept.
  HolderApi* holder = nullptr;

  // What proves who this node is, and until when; absent without certificates.
  std::function<std::vector<Expiry>()> expiries;

  // Sets the daemon's log level and returns the previous one, or fails for an unknown level.
  std::function<Result<std::string>(const std::string& level)> set_log_level;
  // Where metrics are served; any thread. Null: not known.
  std::function<MetricsInfo()> metrics;
  // How the addresses of nodes are discovered; any thread. Null: they are not.
  std::function<DiscoveryState()> discovery;
};

}  // namespace onecopy::engine
