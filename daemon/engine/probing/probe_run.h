// One probe: reads memory of a node, this one included, over each pair of network devices and then
// over all lanes, and compares.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/probing/activities.h"
#include "daemon/engine/probing/timed_read.h"
#include "daemon/plan/wire.h"

namespace onecopy::engine {

struct ProbeOutcome {
  // Unknown: the probe itself could not be done, so nothing is said about the wire.
  enum class Kind { kUnknown, kMeasured, kFailed };
  struct Pair {
    std::string source_nic;
    std::string destination_nic;
    Status failure;
    double bytes_per_second = 0;
    double latency_seconds = 0;
  };

  Kind kind = Kind::kUnknown;
  Status why;  // where not measured
  double bytes_per_second = 0;
  double latency_seconds = 0;
  double link_seconds = 0;  // that the link was busy
  std::vector<Pair> pairs;
  // What became of registering the memory here; empty where it was not tried.
  std::vector<NicRegistration> registrations;
  Status registration;  // where it failed with every device
};

// Engine thread. Keeps itself alive until it has released everything.
class ProbeRun final : public std::enable_shared_from_this<ProbeRun> {
 public:
  struct Params {
    std::string peer;
    plan::Wire wire;
    // Only lanes between a device and itself, as a node has them with itself.
    bool own_lanes_only = false;
  };

  ProbeRun(Context& context, Nodes& nodes, Connections& connections, Activities& activities,
           Params params);

  // `done` runs once, within the limit of one probe, perhaps before everything is released.
  void Start(UniqueFunction<void(ProbeOutcome)> done);
  void Stop(const Status& why);

 private:
  // What is to be read next.
  struct Job {
    int lane = GetRequest::kAnyLane;
    int pair = -1;  // of the outcome's; -1: all lanes
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t most_bytes = 0;
  };
  struct Target {
    RegionRef region;
    Status registration;
    std::vector<NicRegistration> registrations;
  };

  void MakeTarget();
  void Connect();
  void Open();
  void Opened(const OpenProbeReply& reply);
  void PlanJobs(uint64_t bytes);
  void NextJob();
  void Read(const Job& job, const TimedReadResult& result);
  void Note(const Job& job, const TimedReadResult& result, const Status& status);
  void Conclude();
  void End(ProbeOutcome::Kind kind, const Status& why);
  void CloseAtPeer(uint64_t probe);
  bool over() const { return !done_; }

  Context& context_;
  Nodes& nodes_;
  Connections& connections_;
  Activities& activities_;
  const Params params_;
  const uint64_t seed_;
  const ChannelId channel_;
  UniqueFunction<void(ProbeOutcome)> done_;
  os::EventLoop::TimerId timer_ = 0;
  std::optional<Connections::Use> use_;
  RegionRef target_;
  bool connected_anew_ = false;  // as the first connection turned out dead
  std::optional<uint64_t> opened_;
  std::shared_ptr<const RemoteKey> key_;
  std::vector<Job> jobs_;
  size_t next_job_ = 0;
  ProbeOutcome outcome_;
};

}  // namespace onecopy::engine
