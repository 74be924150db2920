// What this node has found out, by doing it, about the ways by which bytes reach it: from other
// nodes, and in loopback about its own network devices and memories. See README.md for when it
// probes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/probing/activities.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/probe_run.h"
#include "daemon/engine/probing/probe_table.h"
#include "daemon/engine/probing/slow_transfers.h"
#include "daemon/plan/estimates.h"
#include "transport/core/contracts/region.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. At most one probe of this node's own devices and one of a way from a peer run at a
// time.
class Probes {
 public:
  Probes(Context& context, Catalog& catalog, Peers& peers, Nodes& nodes, Connections& connections,
         const PathRates& path_rates);
  ~Probes();

  // Runs `then` when these ways from the peer have been probed: at once where nothing has to be
  // found out, and in any case when the time that a transfer waits is over. What is known but old
  // is found out again without waiting. Ways that begin or end in memory that only clients have
  // (dma-bufs) are not probed.
  void Await(const std::string& peer, const std::vector<plan::Wire>& wires, Task then);
  // What is known about the ways from a peer, by probes and by transfers (PathRates), for the
  // planner.
  plan::Estimates EstimatesFor(const std::string& peer) const;

  // Why no device of the link reaches memory of this node at that place; OK where one does, where
  // the link has no such devices, and where it is not or could not be found out.
  void EnsureOwn(const std::string& link, const Place& place, StatusReply reply);

  // Probes all there is from that node, or from every connected peer and from this node itself
  // where the name is empty. `force`: also what was probed lately.
  void ProbeNode(const std::string& node, bool force, Reply<std::vector<ProbeInfo>> reply);
  std::vector<ProbeInfo> Describe(const std::string& node) const { return table_.Describe(node); }

  // A transfer from that node was far slower than was measured before.
  void CountSlow(const std::string& node) { slow_.Count(node); }
  uint64_t slow_transfers(const std::string& node) const { return slow_.of(node); }

  // What was found may no longer hold.
  void LinkChanged(const std::string& link);
  void PeerChanged(const std::string& node, const NodeCapability& before,
                   const NodeCapability& now) {
    table_.PeerChanged(node, before, now);
  }
  void PeerRestarted(const std::string& node) { table_.PeerRestarted(node); }

  // To be waited for by Stop, beside the probes themselves.
  Activities& activities() { return activities_; }
  // Ends all probes, then runs `done`; waiting calls get no answer.
  void Stop(Task done);

  uint64_t started() const { return started_; }
  uint64_t measured() const { return measured_; }
  uint64_t failed() const { return failed_; }

 private:
  using Key = ProbeTable::Key;

  // One way of probing, one probe at a time.
  struct Line {
    std::deque<Key> queue;
    bool busy = false;
    std::shared_ptr<ProbeRun> run;
    os::EventLoop::TimerId timer = 0;
  };
  // How long a link may still be kept busy by probes.
  struct Allowance {
    double seconds = 0;
    os::Clock::time_point since;
  };

  // Whether it is a peer, connected or not, or this node.
  bool IsKnown(const std::string& node) const;
  bool IsOwn(const Key& key) const;
  Line& LineOf(const Key& key) { return IsOwn(key) ? own_line_ : peer_line_; }
  bool HasDevices(const std::string& link) const;
  // Whether it is waited for or running then.
  bool Enqueue(const Key& key, ProbeTable::Entry& entry);
  void AwaitKeys(const std::vector<Key>& keys, bool force, std::chrono::milliseconds limit,
                 Task then);
  void StartNext(Line& line);
  void Begin(const Key& key);
  void Run(const Key& key);
  void Conclude(const Key& key, ProbeOutcome outcome);
  // Tells the catalog what this node's devices do with its memory; the outcome then says whether
  // any does.
  void Evaluate(const Key& key, ProbeOutcome& outcome);
  void SetExpiry(ProbeTable::Entry& entry);
  double Allowed(const std::string& link);
  std::vector<Key> KeysOf(const std::string& node) const;

  Context& context_;
  Catalog& catalog_;
  Peers& peers_;
  Nodes& nodes_;
  Connections& connections_;
  const PathRates& path_rates_;
  Activities activities_;
  ProbeTable table_;
  Line own_line_;
  Line peer_line_;
  std::map<std::string, Allowance> allowances_;
  SlowTransfers slow_;
  uint64_t started_ = 0;
  uint64_t measured_ = 0;  // of those that have ended
  uint64_t failed_ = 0;    // likewise; some tell nothing
  bool stopped_ = false;
};

}  // namespace onecopy::engine
