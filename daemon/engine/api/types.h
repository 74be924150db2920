// Requests to the engine and what it answers: plain values, the same for gRPC, for a peer and for a
// test.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/plan/path.h"
#include "daemon/plan/path_rate.h"
#include "transport/core/capability.h"
#include "transport/core/ids.h"
#include "transport/core/range.h"
#include "transport/core/result.h"
#include "transport/core/scatter.h"
#include "transport/core/uid.h"
#include "transport/core/unique_function.h"

namespace onecopy::engine {

using WallTime = std::chrono::system_clock::time_point;

// Runs exactly once, on the engine's thread, and must not block.
template <typename T>
using Reply = UniqueFunction<void(Result<T>)>;
using StatusReply = UniqueFunction<void(Status)>;

// Who asks: a uid on a node. Only a session of this node can be an administrator's: uid 0, or the
// uid that the daemon runs as, in the daemon's own namespaces.
struct Principal {
  Uid uid;
  std::string node;
  bool administrator = false;
  SessionId session;  // empty for a peer's principal

  std::string ToString() const { return uid.ToString() + "@" + node; }
};

// A range of a buffer. `node` empty means this node; absent numbers as in onecopy.v1.Endpoint.
struct Endpoint {
  std::string node;
  std::string buffer;
  std::optional<uint64_t> offset;
  std::optional<uint64_t> bytes;
  std::string file = {};  // instead of `buffer`, of a series: the client's file, or "-"

  std::string ToString() const;  // "east:a@0+4096"
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

enum class TransferState { kPending, kRunning, kSucceeded, kFailed, kCancelled, kUnconfirmed };
std::string_view StateName(TransferState state);
// Whether the state is a last one; UNCONFIRMED is not.
bool IsFinal(TransferState state);

enum class TransferRole { kDestination, kSource, kOrderer };

struct LaneBytes {
  std::string device;
  std::string peer;
  uint64_t bytes = 0;
};

struct ExecutedStep {
  Step step;
  uint64_t bytes = 0;
};

struct ChecksumResult {
  std::string algorithm;
  std::string value;
  bool verified = false;
};

struct Attempt {
  std::string path;
  std::string outcome;
  uint64_t bytes = 0;
};

// See onecopy.v1.Receipt; copies are the number of steps.
struct Receipt {
  uint64_t ranges = 1;         // as asked for
  uint64_t merged_ranges = 1;  // after joining neighbours
  std::string path;
  std::string link;
  bool emulated = false;
  std::string registration = "none";
  std::string key = "none";
  std::string encryption = "none";
  std::vector<ExecutedStep> steps;
  std::vector<LaneBytes> lanes;
  double seconds = 0;
  double negotiation_seconds = 0;
  std::optional<ChecksumResult> checksum;
  std::vector<Refusal> refused;
  std::vector<Attempt> attempts;
  std::map<std::string, std::string> evidence;
};

// See onecopy.v1.Transfer.
struct TransferInfo {
  TransferId id;
  TransferState state = TransferState::kPending;
  TransferRole role = TransferRole::kDestination;
  Endpoint source;
  Endpoint destination;
  uint64_t bytes = 0;
  uint64_t bytes_done = 0;
  std::string owner;
  WallTime create_time;
  std::optional<WallTime> end_time;
  std::optional<plan::Plan> plan;
  Receipt receipt;
  Status error;
  TransferId part_of = {};     // the series that it is a part of
  uint64_t parts = 0;          // of a series
  std::string waits_for = {};  // what keeps its bytes from moving now, in words; empty: nothing
};

struct TransferRequest {
  std::string request_id;
  Endpoint source;
  Endpoint destination;
  ScatterRef ranges;  // inside the two ends, counted from where these begin; null: all of them
  plan::Policy policy;
  bool checksum = false;
  std::optional<std::chrono::milliseconds> deadline;
  bool validate_only = false;
  TransferId part_of = {};  // a series, whose policy, checksum and deadline are the part's
};

// See onecopy.v1.OpenSeriesRequest.
struct SeriesRequest {
  Endpoint source;
  Endpoint destination;
  std::optional<uint64_t> bytes;
  plan::Policy policy;
  bool checksum = false;
  std::optional<std::chrono::milliseconds> deadline;
};

// See onecopy.v1.EndSeriesRequest.
struct SeriesEnd {
  TransferId id;
  Status failure;
  std::string checksum;
};

// See onecopy.v1.Buffer.
struct BufferInfo {
  std::string node;
  std::string name;
  std::string id;  // BufferId in text; empty when only validated
  std::string memory;
  std::string device;
  uint64_t bytes = 0;
  std::string owner;
  bool registered = false;
  WallTime create_time;
  uint32_t transfers = 0;
};

struct CreateBufferRequest {
  std::string request_id;
  std::string name;
  uint64_t bytes = 0;
  std::string memory;  // as typed: "host", "cuda:0", a PCI address, a UUID
  bool validate_only = false;
};

struct RegisterBufferRequest {
  std::string request_id;
  std::string name;
  uint64_t bytes = 0;
  std::string kind;    // of memory: "host", "cuda"
  std::string form;    // as in ImportRequest
  std::string device;  // as typed
  uint64_t offset = 0;
  uint64_t allocation_bytes = 0;
  uint64_t fd_handle = 0;  // from Sessions::Deposit; 0: none
  std::string handle;
  uint64_t dmabuf_fd_handle = 0;  // likewise, of a dma-buf beside the handle
  uint64_t dmabuf_offset = 0;
  std::string dmabuf_refusal;  // why there is none, by the client's word
  bool validate_only = false;
};

struct GrantInfo {
  GrantId id;
  std::string buffer;
  ByteRange range;
  std::string to;  // uid@node
  bool read = false;
  bool write = false;
  std::optional<WallTime> expire_time;
  std::string owner = {};  // of the buffer, uid@node
  std::string node = {};   // that has the buffer
};

struct CreateGrantRequest {
  Endpoint range;
  std::string to;  // "1000" or "1000@node"
  bool read = false;
  bool write = false;
  std::optional<std::chrono::milliseconds> lifetime;
};

// What a probe found of one direction, from the source to this node; see onecopy.v1.Probe.
struct ProbeInfo {
  std::string peer;  // the source's node; this node's own name for a probe in loopback
  std::string link;
  std::string source_memory;
  std::string source_device;
  std::string destination_memory;
  std::string destination_device;
  // One pair of network devices; both empty: all lanes together.
  std::string source_nic;
  std::string destination_nic;
  Viability viability;
  double bytes_per_second = 0;
  double latency_seconds = 0;
  WallTime time;
  WallTime expire_time;
};

// What transfers from a node to this one made by one way; see onecopy.v1.PathRate.
struct PathRateInfo {
  plan::Way way;
  uint64_t least_bytes = 0;  // from what size on
  plan::PathRate rate;
};

enum class NodeState { kConnected, kDisconnected, kIncompatible, kDraining };
std::string_view NodeStateName(NodeState state);

// Something that proves who this node is, and ends.
struct Expiry {
  std::string what;
  std::string file;
  WallTime since;
  WallTime expire_time;
};

// See onecopy.v1.Node.
struct NodeInfo {
  std::string name;
  bool self = false;
  NodeState state = NodeState::kDisconnected;
  std::string address;
  std::string boot_id;
  uint32_t protocol_min = 0;
  uint32_t protocol_max = 0;
  std::string version;
  std::string reason;
  std::string detail;
  WallTime since;
  std::string uid_domain;
  NodeCapability capabilities;
  // Of the way from it to this node; of this node itself, in loopback.
  std::vector<ProbeInfo> probes = {};
  uint64_t slow_transfers = 0;  // from it, that were far slower than was measured before
  std::vector<PathRateInfo> path_rates = {};  // of transfers from it
  std::vector<Expiry> expiries = {};
};

struct Sum {
  std::string algorithm;
  std::string value;
  uint64_t bytes = 0;
};

struct PageRequest {
  int32_t size = 0;   // 0: 100; at most 1000
  std::string token;  // empty: from the start
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_token;  // empty on the last page
};

}  // namespace onecopy::engine
