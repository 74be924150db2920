// What a daemon has done and what it has now, in numbers: values that one look at the engine takes,
// for daemon/metrics. Everything is bounded; nothing names a buffer, a transfer or a user.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/node.h"
#include "onecopy/status.h"
#include "onecopy/transfer.h"
#include "transport/core/base/histogram.h"

namespace onecopy::engine {

// How much is told apart of each, whatever peers say: a page of all of it is less than 1 MB. What
// is beyond is added up under a name of its own.
inline constexpr size_t kMaxPeersTold = 256;
inline constexpr size_t kMaxBytesTold = 2048;
inline constexpr size_t kMaxEndsTold = 512;
inline constexpr size_t kMaxWorseTold = 256;
inline constexpr size_t kMaxRefusalsTold = 512;
inline constexpr size_t kMaxFailoversTold = 128;
inline constexpr size_t kMaxReasonsTold = 128;
inline constexpr size_t kMaxProbesTold = 1024;
inline constexpr size_t kMaxLanesTold = 128;
// Of the status page.
inline constexpr size_t kMaxNodesShown = 64;
inline constexpr size_t kMaxDevicesShown = 256;
inline constexpr size_t kMaxBetterShown = 3;

// As seen from this node. kElsewhere: ordered here, between two other nodes.
enum class Direction : uint8_t { kIn, kOut, kInside, kElsewhere };

// "in", "out", "inside", "elsewhere".
std::string_view DirectionName(Direction direction);

// Of transfers, since the daemon began.
struct TransferFigures {
  // Ended ones. `path` is on the ladder, or "none" (it ended before there was one), "several" or
  // "other".
  struct EndKey {
    std::string path;
    Direction direction = Direction::kInside;
    TransferState outcome = TransferState::kUnknown;
    std::string reason;  // empty: it succeeded
    friend auto operator<=>(const EndKey&, const EndKey&) = default;
  };
  // Payload that arrived.
  struct BytesKey {
    std::string path;
    std::string link;  // empty inside a node
    std::string peer;  // likewise; "(more)": beyond what is told apart
    Direction direction = Direction::kInside;
    friend auto operator<=>(const BytesKey&, const BytesKey&) = default;
  };
  // The path that was taken, and the first better one that was refused.
  struct WorseKey {
    uint32_t copies = 0;
    std::string path;
    std::string best;
    std::string reason;
    friend auto operator<=>(const WorseKey&, const WorseKey&) = default;
  };
  // Lanes, by the network device of this node.
  struct LaneKey {
    std::string link;
    std::string device;
    friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
  };
  struct Amount {
    uint64_t transfers = 0;
    uint64_t bytes = 0;
  };
  struct RefusalKey {
    std::string path;
    std::string reason;
    friend auto operator<=>(const RefusalKey&, const RefusalKey&) = default;
  };
  struct FailoverKey {
    std::string from;
    std::string to;
    friend auto operator<=>(const FailoverKey&, const FailoverKey&) = default;
  };

  std::map<EndKey, uint64_t> ended;
  std::map<BytesKey, uint64_t> bytes;
  std::map<LaneKey, uint64_t> lanes;  // what arrived from other nodes, but by rings
  // From here on: of those that this node decided, or that its clients' rings carried.
  std::map<std::string, DurationHistogram> durations;  // of those that succeeded, by path
  DurationHistogram negotiations;                      // of those that no ring carried
  SizeHistogram sizes;
  std::map<uint32_t, Amount> copies;  // of those that succeeded
  std::map<WorseKey, Amount> worse;   // likewise
  std::map<RefusalKey, uint64_t> refusals;
  std::map<FailoverKey, uint64_t> failovers;
  std::map<std::string, uint64_t> requests_refused;  // by reason
};

// Half of the common slab.
struct SlotFigures {
  uint32_t slots = 0;
  uint32_t free = 0;
  uint32_t waiting = 0;  // transfers that have none and want some
  uint64_t given = 0;
  DurationHistogram waits;  // of transfers that had none, until they were given some
};

struct BufferKey {
  std::string memory;       // kind
  std::string device;       // UUID of a GPU
  bool registered = false;  // by a client; else the daemon allocated it
  friend auto operator<=>(const BufferKey&, const BufferKey&) = default;
};
struct BufferFigures {
  std::map<BufferKey, TransferFigures::Amount> buffers;  // their number in `transfers`
  uint64_t views = 0;
};

struct PeerFigures {
  std::string name;
  bool connected = false;
  double silent_seconds = 0;  // since its last word; since the daemon began where there was none
  uint64_t slow_transfers = 0;
  NodeState state = NodeState::kUnknown;
  std::string reason = {};  // why it is not CONNECTED
  std::string detail = {};
  std::vector<std::string> silent_addresses = {};  // as in NodeInfo
};
struct PeersFigures {
  std::map<NodeState, uint64_t> by_state;
  std::vector<PeerFigures> peers;  // configured or connected ones, at most kMaxPeersTold
};

// The fastest that probes found between two kinds of memory, by all lanes.
struct ProbeKey {
  std::string link;
  std::string peer;    // this node: in loopback
  std::string memory;  // "host-cuda": from, to
  friend auto operator<=>(const ProbeKey&, const ProbeKey&) = default;
};

// What one kind of thing may be had of, by all users together.
struct QuotaFigures {
  std::string what;  // a key of [limits]
  uint64_t used = 0;
  uint64_t limit = 0;
  uint64_t refused = 0;  // since the daemon began
};

// How a long transfer from one memory of a node would reach one of this node's, as the planner
// would decide now.
struct WayFigures {
  std::string from = {};  // "host", "cuda:0"
  std::string to = {};
  std::string path = {};  // empty: no path works
  std::string link = {};  // empty inside a node
  size_t copies = 0;
  double bytes_per_second = 0;  // that the planner expects
  std::string basis = {};       // what that rests on
  double probed_bytes_per_second = 0;
  // Better paths that apply and were refused, the best first, at most kMaxBetterShown; without a
  // path all that apply.
  std::vector<Refusal> better = {};
};
struct NodeWays {
  std::string node;
  std::vector<WayFigures> ways;
};

// A device of this node; if the node has none of its kind, what it would be reached by.
struct DeviceFigures {
  std::string kind = {};  // "gpu", "nic", "drive", "link", "store"
  std::string name = {};
  std::string link = {};          // of a network device
  uint64_t bytes_per_second = 0;  // 0: unknown
  bool emulated = false;
  Viability viability = {};
};

// What the status page has beside the figures of metrics.
struct StatusFigures {
  std::vector<NodeWays> ways;  // this node's first; of connected nodes, at most kMaxNodesShown
  std::vector<DeviceFigures> devices;
  // Bytes that transfers under way have moved so far; `transfers` counts those under way.
  std::map<TransferFigures::BytesKey, TransferFigures::Amount> running;
};

struct Figures {
  std::string node;
  std::string version;
  WallTime start_time;
  bool draining = false;
  bool holder_lost = false;  // a holder is configured, and none is connected
  TransferFigures transfers;
  uint64_t running = 0;  // transfers under way
  uint64_t ring_routes = 0;
  uint64_t rings = 0;
  uint64_t sessions = 0;
  uint64_t mappings = 0;
  SlotFigures send_slots;
  SlotFigures receive_slots;
  BufferFigures buffers;
  PeersFigures peers;
  uint64_t slow_transfers_inside = 0;
  std::map<ProbeKey, double> probes;  // bytes per second
  uint64_t probes_succeeded = 0;
  uint64_t probes_failed = 0;
  std::vector<QuotaFigures> quotas;
  std::vector<Expiry> expiries;
  std::optional<DiscoveryInfo> discovery;  // where nodes are discovered
  std::vector<NameConflict> conflicts;     // names that two daemons have
  std::optional<StatusFigures> status;     // where it was asked for
};

}  // namespace onecopy::engine
