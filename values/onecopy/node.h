// What a client is told about nodes.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/transfer.h"

namespace onecopy {

// kUnknown: a state that this library is too old to know.
enum class NodeState { kUnknown, kConnected, kDisconnected, kIncompatible, kDraining };

// "CONNECTED" and the like.
std::string_view NodeStateName(NodeState state);

// What a probe found of one direction: bytes were read from `node` by this client's node, and
// compared.
struct ProbeInfo {
  std::string node;  // this client's own node for a probe in loopback
  std::string link;
  std::string source_memory;  // kind
  std::string source_device;  // UUID of a GPU
  std::string destination_memory;
  std::string destination_device;
  // One pair of network devices; both empty: all lanes together.
  std::string source_nic;
  std::string destination_nic;
  Viability viability;
  double bytes_per_second = 0;  // where viable
  double latency_seconds = 0;   // of the smallest reading, where viable
  WallTime time;
  WallTime expire_time;
};

// What transfers of about one size made by one path between two memories, alone on both nodes: the
// median of the last five.
struct PathRateInfo {
  std::string path;
  std::string link;           // empty inside a node
  std::string source_memory;  // kind
  std::string source_device;  // UUID of a GPU
  std::string destination_memory;
  std::string destination_device;
  bool source_staged = false;  // through pinned slots
  bool destination_staged = false;
  uint64_t least_bytes = 0;  // the next size class begins at four times that, the last has no end
  double bytes_per_second = 0;
  uint32_t transfers = 0;  // that it is the median of
  WallTime time;           // when the last of them ended
};

// What proves who a node is, or whom it believes, and ends.
struct Expiry {
  std::string what;  // "the certificate of this node"
  std::string file;
  WallTime begin_time;
  WallTime expire_time;
};

// What a daemon keeps, queues or reserves for one payer.
struct ChargeInfo {
  std::string what;  // "transfers", "requests"
  uint64_t count = 0;
  uint64_t bytes = 0;  // of the daemon's memory
};
struct AccountInfo {
  std::string payer;  // "1000@east", "node west", "the address 10.1.1.7"
  std::vector<ChargeInfo> charges;
};

// Where a daemon serves metrics in Prometheus' format.
struct MetricsInfo {
  std::string address;  // HOST:PORT; not served: what was asked for, empty where it is off
  Viability viability;  // whether they are served
};

// Two daemons that have one name and answer at the same time.
struct NameConflict {
  std::string name;
  std::string address;  // HOST:PORT of the one that this node keeps to
  std::string other;    // and of the other one
  std::string told_by;  // the node that found it, or "etcd"; empty: this node
};

// How a daemon learns the addresses of its peers, beside those of its configuration.
struct DiscoveryInfo {
  std::string kind;        // "static", "dns", "etcd"
  Viability viability;     // whether the last attempt succeeded
  uint64_t peers = 0;      // discovered nodes that are peers
  uint64_t strangers = 0;  // discovered nodes that no section of [peers] lets in
  uint64_t refused = 0;    // entries without a node's name, or whose address cannot be used
  std::optional<WallTime> answer_time;  // of the last good answer; absent: there was none
};

struct NodeInfo {
  std::string name;
  bool self = false;  // the node that the client is attached to
  NodeState state = NodeState::kDisconnected;
  std::string address;  // HOST:PORT at which its daemon listens for peers
  std::string boot_id;  // changes whenever its daemon starts
  uint32_t protocol_min = 0;
  uint32_t protocol_max = 0;
  std::string version;
  std::string reason;  // why it is not CONNECTED
  std::string detail;
  WallTime since;  // when this state began
  std::string uid_domain;
  std::optional<NodeCapability> capabilities;  // absent from a list of nodes
  // Of the way from it to this client's node; of that node itself, in loopback.
  std::vector<ProbeInfo> probes;
  uint64_t slow_transfers = 0;  // from it, that were far slower than was measured before
  std::vector<PathRateInfo> path_rates = {};  // of transfers from it
  // HOST:PORT of its addresses for payload that do not answer the client's node, on connections
  // that are open; its other ones carry all.
  std::vector<std::string> silent_addresses = {};
  std::vector<Expiry> expiries = {};  // of the client's own node, with [tls]; the soonest first
  // Likewise, shown only to administrators: the 100 payers for which it keeps most.
  std::vector<AccountInfo> accounts = {};
  std::optional<MetricsInfo> metrics = {};      // of the client's own node
  std::vector<NameConflict> conflicts = {};     // that it knows of, likewise
  std::optional<DiscoveryInfo> discovery = {};  // likewise
};

// A folder of a node, whose files the caller may copy from or to by their paths,
// "west:/data/m.bin".
struct ExportInfo {
  std::string node;
  std::string name;  // [exports.NAME]
  std::string path;
  bool read = false;
  bool write = false;
};

}  // namespace onecopy
